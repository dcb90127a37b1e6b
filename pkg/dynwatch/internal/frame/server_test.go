package frame_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"} //nolint:gochecknoglobals // a constant

// server is an API server that answers with what a test tells it.
type server struct {
	*httptest.Server
}

// protocols are the two ways in which API servers are reached.
func protocols() map[string]func(*testing.T, http.HandlerFunc) server {
	return map[string]func(*testing.T, http.HandlerFunc) server{
		"HTTP/1.1": func(t *testing.T, h http.HandlerFunc) server {
			s := httptest.NewServer(h)
			t.Cleanup(s.Close)
			return server{s}
		},
		"HTTP/2": func(t *testing.T, h http.HandlerFunc) server {
			s := httptest.NewUnstartedServer(h)
			s.EnableHTTP2 = true
			s.StartTLS()
			t.Cleanup(s.Close)
			return server{s}
		},
	}
}

// client returns our client for the server, compression off as in the product.
func (s server) client(t *testing.T, n *frame.Normaliser, metadataOnly bool) rest.Interface {
	t.Helper()
	h := s.Client()
	if transport, ok := h.Transport.(*http.Transport); ok {
		transport.DisableCompression = true
		t.Cleanup(transport.CloseIdleConnections)
	}
	c, err := frame.NewRESTClient(&rest.Config{Host: s.URL}, h, n, metadataOnly)
	must(t, err)
	return c
}

// watch opens a watch of Pods.
func (s server) watch(t *testing.T, n *frame.Normaliser) (watch.Interface, error) {
	t.Helper()
	w, err := dynamic.New(s.client(t, n, false)).Resource(pods).Namespace("shop").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	if err == nil {
		t.Cleanup(func() {
			w.Stop()
			for range w.ResultChan() {
				// Drained, so that its goroutine is gone.
			}
		})
	}
	return w, err
}

// say writes the pieces of a watch response, each flushed on its own, and then
// ends it, or breaks the connection.
func say(broken bool, pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, p := range pieces {
			if _, err := w.Write([]byte(p)); err != nil {
				return
			}
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		}
		if broken {
			panic(http.ErrAbortHandler)
		}
	}
}

// collect returns the events of a watch until it ends.
func collect(t *testing.T, w watch.Interface) []watch.Event {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the watch does not end"))
	defer cancel()
	var events []watch.Event
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return events
			}
			events = append(events, frames(e)...)
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
}

// frames returns a copy of each of the frames of an event as one of its own.
func frames(e watch.Event) (all []watch.Event) {
	w, ok := e.Object.(*frame.Watched)
	if !ok {
		return []watch.Event{e}
	}
	for w != nil {
		one := *w
		if w.Data != nil {
			one.Data = append(make([]byte, 0, cap(w.Data)), w.Data...) // it is written over
		}
		w = w.Done()
		all = append(all, watch.Event{Type: one.Kind, Object: &one})
	}
	return all
}

// summary describes an event in one line.
func summary(e watch.Event) string {
	switch o := e.Object.(type) {
	case *frame.Watched:
		switch {
		case o.Err != nil:
			return fmt.Sprintf("%s malformed %s/%s %s %d: %s", e.Type, o.Err.Namespace, o.Err.Name, o.Err.UID, o.Err.ResourceVersion, o.Err.Reason)
		case e.Type == watch.Bookmark:
			return fmt.Sprintf("%s %d", e.Type, o.ResourceVersion)
		}
		return fmt.Sprintf("%s %s/%s %d", e.Type, o.Namespace, o.Name, o.ResourceVersion)
	case *metav1.Status:
		if d := o.Details; d != nil && len(d.Causes) > 0 { // of client-go's own making
			return fmt.Sprintf("%s %s", e.Type, strings.TrimPrefix(d.Causes[len(d.Causes)-1].Message, "unable to decode an event from the watch stream: "))
		}
		return fmt.Sprintf("%s %d %s %s", e.Type, o.Code, o.Reason, o.Message)
	}
	return fmt.Sprintf("%s %T", e.Type, e.Object)
}

func summaries(events []watch.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, summary(e))
	}
	return all
}
