// Package progress reports the progress of a measured client without a visible cost: two
// counters, which the benchmark reads over HTTP when a phase is over.
package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Counters are how many objects and updates a client has handled to their end: what
// it publishes has been accepted by then.
type Counters struct {
	Objects, Updates atomic.Int64
}

// Serve answers at a loopback address until ctx ends.
func (c *Counters) Serve(ctx context.Context, address string) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%d %d\n", c.Objects.Load(), c.Updates.Load())
	})}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Read asks a client.
func Read(ctx context.Context, address string) (objects, updates int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, http.NoBody)
	if err != nil {
		return 0, 0, err
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(string(body), &objects, &updates)
	return objects, updates, err
}
