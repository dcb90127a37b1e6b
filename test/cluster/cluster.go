package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/informd/informd/test/cluster/proc"
)

// Cluster is a running control plane. All methods are safe for concurrent use.
type Cluster struct {
	options     Options
	dir         *proc.Dir
	keys        *keys
	adminToken  string
	kubeconfig  string
	ports       []*proc.Port // all of them, for Close
	etcd        *proc.Process
	etcdURL     string
	etcdPeerURL string
	servers     []*apiServer
	controllers *controllers // nil without Options.Controllers

	userMu sync.Mutex // guards users
	users  int        // how many were added; names the files of the next

	closeOnce sync.Once
	closeErr  error
}

// New starts a cluster and blocks until all its API servers are ready and the
// namespace default exists. That takes a few seconds, or minutes if the binary
// has to be built first. ctx bounds the start only. After an error nothing is
// left; otherwise the caller has to Close.
func New(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	if options.Binary == "" {
		if options.Binary, err = options.findBinary(ctx); err != nil {
			return nil, fmt.Errorf("start cluster: %w", err)
		}
	}
	c := &Cluster{options: options}
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("start cluster: %w", errors.Join(err, c.Close()))
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.openDir(); err != nil {
		return err
	}
	if err := c.checkKubeconfig(); err != nil {
		return err
	}
	if err := c.writeSecrets(); err != nil {
		return err
	}
	if err := c.prepareEtcd(); err != nil {
		return err
	}
	for i := range c.options.APIServers {
		if err := c.prepareAPIServer(i); err != nil {
			return err
		}
	}
	if c.options.Controllers {
		if err := c.prepareControllers(ctx); err != nil {
			return err
		}
	}
	if err := c.etcd.Start(ctx); err != nil {
		return err
	}
	// One after the other: the first start writes the bootstrap roles and
	// namespaces, which two at once would fight over.
	for _, server := range c.servers {
		if err := server.process.Start(ctx); err != nil {
			return err
		}
	}
	if err := c.servers[0].waitForDefaultNamespace(ctx); err != nil {
		return err
	}
	if c.controllers != nil {
		if err := c.startControllers(ctx); err != nil {
			return err
		}
	}
	return c.writeAdminKubeconfigs()
}

func (c *Cluster) openDir() error {
	var err error
	if c.options.Dir == "" {
		c.dir, err = proc.TempDir("cluster")
	} else {
		c.dir, err = proc.OpenDir(c.options.Dir)
	}
	return err
}

// Close ends all processes and removes all files, except those in Options.Dir. A
// cluster in a temp dir is killed, as nothing of it is worth keeping; one with a
// directory is stopped gracefully. Closing again returns the same error.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *Cluster) close() error {
	var errs []error
	for _, process := range slices.Backward(c.processes()) {
		if c.dir.Temporary() {
			errs = append(errs, process.Kill())
		} else {
			errs = append(errs, process.Stop())
		}
	}
	for _, port := range c.ports {
		port.Release()
	}
	if c.kubeconfig != "" {
		if err := os.Remove(c.kubeconfig); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if c.dir != nil {
		errs = append(errs, c.dir.Close())
	}
	return errors.Join(errs...)
}

// Wait blocks until ctx ends, which is no error, or until a process ends that the
// caller did not end, which is.
func (c *Cluster) Wait(ctx context.Context) error {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan *proc.Process, len(c.processes()))
	for _, process := range c.processes() {
		go func() {
			select {
			case <-watch.Done():
			case <-process.Exited():
				ended <- process
			}
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case process := <-ended:
		return fmt.Errorf("%s ended\n%s", process.Name(), process.LogTail())
	}
}

// APIServer returns the process of API server i, counted from 0.
func (c *Cluster) APIServer(i int) *proc.Process { return c.servers[i].process }

// Etcd returns the process of etcd.
func (c *Cluster) Etcd() *proc.Process { return c.etcd }

// EtcdEndpoint returns the URL that etcd serves clients on, in plain HTTP. All
// keys of Kubernetes are under "/registry/".
func (c *Cluster) EtcdEndpoint() string { return c.etcdURL }

// Endpoint returns the URL of API server i.
func (c *Cluster) Endpoint(i int) string { return c.servers[i].url }

// Dir returns the directory of the cluster's data and logs.
func (c *Cluster) Dir() string { return c.dir.Join() }

// processes returns those that were prepared, in the order of their start.
func (c *Cluster) processes() []*proc.Process {
	var all []*proc.Process
	if c.etcd != nil {
		all = append(all, c.etcd)
	}
	for _, server := range c.servers {
		all = append(all, server.process)
	}
	return append(all, c.controllers.processes()...)
}

// newPort reserves a port until Close.
func (c *Cluster) newPort() (*proc.Port, error) {
	port, err := proc.FreePort()
	if err != nil {
		return nil, err
	}
	c.ports = append(c.ports, port)
	return port, nil
}

// writeFile writes a file in the cluster's directory and returns its path.
func (c *Cluster) writeFile(name string, content []byte) (string, error) {
	path := c.dir.Join(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content, 0o600)
}
