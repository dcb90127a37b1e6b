package dynwatch_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// counting is a transport of a program.
type counting struct {
	next     http.RoundTripper
	requests atomic.Int64
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.next.RoundTrip(r)
}

// TestTransportOfTheCaller: lists and watches use the transport of the config, and leave it as it is.
func TestTransportOfTheCaller(t *testing.T) {
	var dialled atomic.Int64
	plain := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	wrapper := &counting{next: plain}
	t.Cleanup(plain.CloseIdleConnections)
	for name, test := range map[string]struct {
		transport http.RoundTripper
		used      func() int64
	}{
		"http.Transport": {plain, dialled.Load},
		"another type":   {wrapper, wrapper.requests.Load},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/one")
			config := api.config()
			config.Transport = test.transport
			before := test.used()
			changed := false
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got []string
			err := dynwatch.Run(ctx, dynwatch.Options{Kubernetes: config, Logger: slog.New(slog.DiscardHandler)}, []dynwatch.Resource{things()}, func(e event.Event) error {
				switch {
				case e.Op == event.State:
					return nil
				case e.Op == event.Synced && !changed:
					changed = true
					api.put("a", "two", "")
				case e.Op == event.Added:
					cancel()
				}
				got = append(got, string(e.Op)+" "+e.Name)
				return nil
			})
			if diff := cmp.Diff([]string{"begin ", "snapshot one", "synced ", "added two"}, got); diff != "" || err != nil {
				t.Errorf("the error is %v; events (-want +got):\n%s", err, diff)
			}
			if test.used() == before || plain.MaxIdleConnsPerHost != 0 || plain.HTTP2 != nil {
				t.Errorf("the transport was used %t, and changed to %+v", test.used() != before, plain.HTTP2)
			}
		})
	}
}
