package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/informd/informd/test/cluster/binary"
	"github.com/informd/informd/test/cluster/proc"
)

// stages is kwok's configuration.
//
//go:embed kwok.yaml
var stages []byte

// The controllers keep their leases while an API server is away for this long, and
// end after it, as they do in production.
const (
	leaseDuration = "60s"
	renewDeadline = "45s"
)

// controllers are the processes that make a cluster change by itself.
type controllers struct {
	manager, scheduler *proc.Process
	kwok               *proc.Process // nil without nodes
}

// prepareControllers describes the processes. They use API server 0.
func (c *Cluster) prepareControllers(ctx context.Context) error {
	path, err := binary.Controllers(ctx)
	if err != nil {
		return err
	}
	c.controllers = &controllers{}
	manager := []string{
		"--service-account-private-key-file=" + c.keys.serviceAccountKeyFile,
		"--root-ca-file=" + c.keys.caFile,
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
	if c.controllers.manager, err = c.controller(path, "controller-manager", manager); err != nil {
		return err
	}
	if c.controllers.scheduler, err = c.controller(path, "scheduler", nil); err != nil {
		return err
	}
	if c.options.Nodes > 0 {
		return c.prepareKWOK(ctx)
	}
	return nil
}

// controller describes one of the two programs, which have most flags in common.
func (c *Cluster) controller(path, name string, flags []string) (*proc.Process, error) {
	port, err := c.newPort()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.componentKubeconfig("kube-" + name)
	if err != nil {
		return nil, err
	}
	args := append([]string{
		name,
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port.Number),
		"--tls-cert-file=" + c.keys.servingCertFile,
		"--tls-private-key-file=" + c.keys.servingKeyFile,
		"--leader-elect-lease-duration=" + leaseDuration,
		"--leader-elect-renew-deadline=" + renewDeadline,
	}, flags...)
	client := c.trustingHTTP()
	return proc.New(proc.Spec{
		Name: "kube-" + name, Path: path, Args: args, Log: c.dir.Join("kube-" + name + ".log"),
		Ready: func(ctx context.Context) error {
			return get(ctx, client, "https://"+port.Address()+"/healthz", "")
		},
	}), nil
}

func (c *Cluster) prepareKWOK(ctx context.Context) error {
	path, err := binary.KWOK(ctx)
	if err != nil {
		return err
	}
	port, err := c.newPort()
	if err != nil {
		return err
	}
	kubeconfig, err := c.componentKubeconfig("kwok")
	if err != nil {
		return err
	}
	config, err := c.writeFile("kwok.yaml", stages)
	if err != nil {
		return err
	}
	c.controllers.kwok = proc.New(proc.Spec{
		Name: "kwok", Path: path, Log: c.dir.Join("kwok.log"),
		Args: []string{
			"--kubeconfig=" + kubeconfig,
			"--config=" + config,
			"--manage-all-nodes=true",
			"--node-ip=127.0.0.1",
			"--node-lease-duration-seconds=40",
			"--server-address=" + port.Address(),
		},
		Ready: func(ctx context.Context) error {
			return get(ctx, plainHTTP(), "http://"+port.Address()+"/healthz", "")
		},
	})
	return nil
}

// componentKubeconfig writes the kubeconfig of a part of the control plane, which
// may do everything.
func (c *Cluster) componentKubeconfig(name string) (string, error) {
	user, err := c.AddUser("system:"+name, adminGroup)
	if err != nil {
		return "", err
	}
	return user.Kubeconfig(), nil
}

// startControllers starts the processes and makes the nodes.
func (c *Cluster) startControllers(ctx context.Context) error {
	for _, p := range c.controllers.processes() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	for i := range c.options.Nodes {
		if err := c.servers[0].createNode(ctx, fmt.Sprintf("node-%d", i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *controllers) processes() []*proc.Process {
	if s == nil {
		return nil
	}
	var all []*proc.Process
	for _, p := range []*proc.Process{s.manager, s.scheduler, s.kwok} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// createNode makes a Node that kwok takes care of. One that exists from an earlier
// cluster in the same directory stays.
func (s *apiServer) createNode(ctx context.Context, name string) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": name, "labels": map[string]string{"kubernetes.io/hostname": name}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/v1/nodes", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusConflict {
		return errors.New("create node " + name + ": " + resp.Status)
	}
	return nil
}

// ControllerManager returns the process of kube-controller-manager, or nil without
// Options.Controllers.
func (c *Cluster) ControllerManager() *proc.Process {
	if c.controllers == nil {
		return nil
	}
	return c.controllers.manager
}

// Scheduler returns the process of kube-scheduler, or nil without
// Options.Controllers.
func (c *Cluster) Scheduler() *proc.Process {
	if c.controllers == nil {
		return nil
	}
	return c.controllers.scheduler
}

// KWOK returns the process of kwok, or nil without Options.Nodes.
func (c *Cluster) KWOK() *proc.Process {
	if c.controllers == nil {
		return nil
	}
	return c.controllers.kwok
}
