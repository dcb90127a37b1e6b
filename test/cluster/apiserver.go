package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/test/cluster/proc"
)

const (
	namespaceInterval = 30 * time.Millisecond
	namespaceTimeout  = time.Minute
)

// apiServer is one kube-apiserver.
type apiServer struct {
	url     string
	process *proc.Process
	client  *http.Client
	token   string // of the administrator
}

func (c *Cluster) prepareAPIServer(i int) error {
	port, err := c.newPort()
	if err != nil {
		return err
	}
	server := &apiServer{url: "https://" + port.Address(), token: c.adminToken, client: c.trustingHTTP()}
	name := fmt.Sprintf("kube-apiserver-%d", i)
	server.process = proc.New(proc.Spec{
		Name:  name,
		Path:  c.options.Binary,
		Args:  append([]string{"apiserver"}, c.apiServerFlags(port.Number)...),
		Log:   c.dir.Join(name + ".log"),
		Ready: func(ctx context.Context) error { return server.get(ctx, "/readyz") },
	})
	c.servers = append(c.servers, server)
	return nil
}

// trustingHTTP returns a client that trusts the cluster's servers and keeps no
// connections.
func (c *Cluster) trustingHTTP() *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(c.keys.ca.cert)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}}
}

func (c *Cluster) apiServerFlags(port int) []string {
	flags := []string{
		"--etcd-servers=" + c.etcdURL,
		"--etcd-compaction-interval=" + c.options.CompactionInterval.String(),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1", // else it looks for a default route, and fails without one
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.keys.servingCertFile,
		"--tls-private-key-file=" + c.keys.servingKeyFile,
		"--client-ca-file=" + c.keys.caFile,
		"--token-auth-file=" + c.keys.tokenFile,
		"--authorization-mode=" + strings.Join(c.options.authorizers(), ","),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.keys.serviceAccountKeyFile,
		"--service-account-signing-key-file=" + c.keys.serviceAccountKeyFile,
		"--service-cluster-ip-range=10.96.0.0/24",
		"--allow-privileged=true",
		// The endpoints of the Service kubernetes are of no use here, and the
		// reconciler removes them at stop, which takes time.
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=" + strings.Join(c.options.disabledAdmission(), ","),
		// Without it, a graceful stop waits up to a minute for open watches.
		"--shutdown-watch-termination-grace-period=1s",
		// Tests may have hundreds of requests in flight.
		"--max-requests-inflight=2000",
		"--max-mutating-requests-inflight=1000",
	}
	if len(c.options.WatchCacheSizes) > 0 {
		var sizes []string
		for _, resource := range slices.Sorted(maps.Keys(c.options.WatchCacheSizes)) {
			sizes = append(sizes, fmt.Sprintf("%s#%d", resource, c.options.WatchCacheSizes[resource]))
		}
		flags = append(flags, "--watch-cache-sizes="+strings.Join(sizes, ","))
	}
	flags = append(flags, c.options.featureGates()...)
	return append(flags, c.options.APIServerFlags...)
}

// get succeeds if the path answers 200 to the administrator.
func (s *apiServer) get(ctx context.Context, path string) error {
	return get(ctx, s.client, s.url+path, s.token)
}

// waitForDefaultNamespace blocks until the namespace default exists. A server
// that is ready creates it in the background.
func (s *apiServer) waitForDefaultNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, namespaceTimeout)
	defer cancel()
	ticker := time.NewTicker(namespaceInterval)
	defer ticker.Stop()
	for {
		err := s.get(ctx, "/api/v1/namespaces/default")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for namespace default: %w", errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}
