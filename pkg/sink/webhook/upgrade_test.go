package webhook_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestSwitchedProtocol has an endpoint answer 101, keep the connection and say nothing:
// the write fails, and the connection is closed.
func TestSwitchedProtocol(t *testing.T) {
	const patience = time.Minute
	closed := make(chan error, 1)
	e := serve(t, func(_ int, w http.ResponseWriter, _ request) bool {
		conn, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return false
		}
		defer func() { _ = conn.Close() }()
		_, _ = stream.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: silence\r\n\r\n")
		_ = stream.Flush()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, err = stream.ReadByte()
		closed <- err
		return false
	})
	s := open(t, e.URL, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	written := make(chan error, 1)
	go func() {
		_, err := s.Write(ctx, sinktest.Events(1))
		written <- err
	}()
	select {
	case err := <-written:
		wantError(t, err, false, "answers 101 Switching Protocols", "set url")
	case <-ctx.Done():
		t.Fatal("the write has not ended with its context")
	}
	if err := <-closed; err == nil || err.Error() != "EOF" {
		t.Errorf("the endpoint reads %v, want the end of the connection", err)
	}
}
