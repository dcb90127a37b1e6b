// Package podserver has what tests need of an API server that lists Pods. Only tests use it.
package podserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// pipeListener is a listener whose connections are in memory, so that a test with them can
// run on synctest's clock.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (*pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// OnPipes returns a client's config for a server in memory, which answers with the handler
// until the test ends. It runs within a bubble of [testing/synctest].
func OnPipes(t *testing.T, handler http.Handler) *rest.Config {
	t.Helper()
	l := &pipeListener{make(chan net.Conn), make(chan struct{})}
	server := http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // until it is closed
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		synctest.Wait()
	})
	return &rest.Config{Host: "http://pipe", Dial: l.dial}
}

// Revision is that of every list of WritePage.
const Revision = 300_000

// WritePage writes a page of a list of so many Pods.
func WritePage(w io.Writer, r *http.Request, all int) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	next, to := "", all
	if limit > 0 && from+limit < all {
		to = from + limit
		next = strconv.Itoa(to)
	}
	page := fmt.Appendf(nil, `{"kind":"List","metadata":{"resourceVersion":"%d","continue":%q},"items":[`, Revision, next)
	for i := from; i < to; i++ {
		if i > from {
			page = append(page, ',')
		}
		page = fmt.Appendf(page, `{"metadata":{"name":"p%d","namespace":"a","uid":"u%[1]d","resourceVersion":"%d"}}`, i, i+1)
	}
	_, _ = w.Write(append(page, "]}"...)) // the client notices
}
