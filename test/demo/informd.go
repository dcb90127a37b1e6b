package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// config is a usual config: whole Pods, Deployments and Sensors, and ConfigMaps with their
// metadata only, so that their content never leaves the API server.
const config = `cluster: demo
resources:
  - {resource: pods, namespaces: [NAMESPACE]}
  - {group: apps, resource: deployments, namespaces: [NAMESPACE]}
  - {resource: configmaps, namespaces: [NAMESPACE], mode: metadata}
  - {group: demo.informd.dev, resource: sensors}
journal: {dir: DIR}
sinks:
  - {name: screen, type: stdout, format: pretty}
  - {name: bus, type: nats, servers: NATS, subjectPrefix: k8s}
admin: {listen: ADMIN, tokenFile: DIR/admin.token}
log: {level: warn}
`

// daemon is informd as a process.
type daemon struct {
	cmd    *exec.Cmd
	dir    string
	config string // its file
	admin  string
	token  string // for objects in the page
	// exited is closed after the process has exited and err was set.
	exited chan struct{}
	err    error
}

// grace is how long informd has to stop before it is killed.
const grace = 15 * time.Second

func startInformd(binary, kubeconfig, natsURL string) (*daemon, error) {
	dir, err := os.MkdirTemp("", "informd-demo-")
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	text := strings.NewReplacer("NAMESPACE", namespace, "DIR", dir, "NATS", natsURL, "ADMIN", admin).Replace(config)
	token := rand.Text()
	if err := os.WriteFile(filepath.Join(dir, "admin.token"), []byte(token), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	say("running informd with this config:\n\n%s", text)
	cmd := exec.Command(binary, "run", "--config", path) //nolint:noctx // stop ends the process
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// Ctrl-C goes to the whole process group. informd must stop after the workload.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start informd: %w", err), os.RemoveAll(dir))
	}
	d := &daemon{cmd: cmd, dir: dir, config: path, admin: admin, token: token, exited: make(chan struct{})}
	go func() {
		defer close(d.exited)
		d.err = cmd.Wait()
	}()
	return d, nil
}

// stop stops informd as a service manager does and removes its directory.
func (d *daemon) stop() error {
	err := d.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-d.exited:
	case <-time.After(grace):
		err = errors.Join(err, d.cmd.Process.Kill())
		<-d.exited
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed on the next line
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
