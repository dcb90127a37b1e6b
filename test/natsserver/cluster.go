package natsserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/test/cluster/proc"
)

// StartCluster runs n servers that form a cluster, each with the options and its own
// name: n0, n1 and so on. JetStream works when it returns.
func StartCluster(t testing.TB, n int, options Options) []*Server {
	t.Helper()
	routes := make([]string, n)
	addresses := make([]string, n)
	for i := range n {
		port, err := proc.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(port.Release)
		addresses[i] = port.Address()
		routes[i] = fmt.Sprintf("%q", "nats://"+addresses[i])
	}
	servers, errs := make([]*Server, n), make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		o := options
		o.Name = fmt.Sprint("n", i)
		o.Config += fmt.Sprintf("\ncluster {\n  name: c\n  listen: %q\n  routes: [%s]\n}\n", addresses[i], strings.Join(routes, ", "))
		// One alone is not ready: it has no quorum.
		starting.Go(func() { servers[i], errs[i] = New(context.WithoutCancel(t.Context()), o) })
	}
	starting.Wait()
	t.Cleanup(func() {
		for i, s := range servers {
			if s == nil {
				continue
			}
			if t.Failed() {
				t.Logf("nats-server n%d\n%s", i, s.LogTail())
			}
			if err := s.Close(); err != nil {
				t.Errorf("close nats-server n%d: %v", i, err)
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return servers
}

// URLs joins the URLs of servers.
func URLs(servers []*Server) string {
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}
