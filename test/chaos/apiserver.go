package chaos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/cluster/binary"
	"github.com/informd/informd/test/cluster/proc"
)

// startTwin starts a second API server on the cluster's etcd that reaches it
// through a link, so that it can be made stale while the first one is not. It is
// run like the first one, whose command line the kernel tells, but for its version.
func startTwin(ctx context.Context, c *cluster.Cluster, dir *proc.Dir, etcd *Link, version string) (*proc.Process, *proc.Port, error) {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.APIServer(0).PID()))
	if err != nil {
		return nil, nil, fmt.Errorf("read the API server's command line: %w", err)
	}
	port, err := proc.FreePort()
	if err != nil {
		return nil, nil, err
	}
	args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	path, args := args[0], args[1:]
	if version == cluster.Oldest {
		if path, err = binary.ControlPlane132(ctx); err != nil {
			port.Release()
			return nil, nil, err
		}
		args = oldestFlags(args)
	}
	args = append(args,
		"--etcd-servers=http://"+etcd.Address(),
		fmt.Sprintf("--secure-port=%d", port.Number))
	config := c.RESTConfig()
	config.Host = "https://" + port.Address()
	process := proc.New(proc.Spec{
		Name: "kube-apiserver-b", Path: path, Args: args, Log: dir.Join("kube-apiserver-b.log"),
		Ready: func(ctx context.Context) error { return readyz(ctx, config) },
	})
	if err := process.Start(ctx); err != nil {
		port.Release()
		return nil, nil, err
	}
	return process, port, nil
}

// oldestFlags leaves out what the oldest version does not know and would refuse.
func oldestFlags(args []string) []string {
	args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--feature-gates=") })
	for i := range args {
		if strings.HasPrefix(args[i], "--disable-admission-plugins=") {
			args[i] = strings.Replace(args[i], "PodTopologyLabels,", "", 1)
		}
	}
	return args
}

// readyz succeeds if the API server says that it is ready.
func readyz(ctx context.Context, config *rest.Config) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+config.BearerToken)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
