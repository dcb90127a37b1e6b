package dynwatch_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

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
			api.before(isWatch, func(_ *http.Request, n int64) {
				if n == 1 {
					api.put("a", "two", "")
				}
			})
			config := api.config()
			config.Transport = test.transport
			before := test.used()
			options := dynwatch.Options{Kubernetes: config, Logger: slog.New(slog.DiscardHandler)}
			got, err := handled(t, options, event.Added, "two", nil)
			must(t, err)
			same(t, []string{"begin", "snapshot one", "synced", "added two"}, got)
			if test.used() == before || plain.MaxIdleConnsPerHost != 0 || plain.HTTP2 != nil {
				t.Errorf("the transport was used %t, and changed to %+v", test.used() != before, plain.HTTP2)
			}
		})
	}
}
