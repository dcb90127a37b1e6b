package sinktest

import (
	"net"
	"sync"
	"testing"
)

// Listen is a server over TCP until the test ends. It hands each connection to serve, which need not close it, and closes
// what is open in the end. It waits for each call of serve.
func Listen(t *testing.T, serve func(conn net.Conn)) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	ended := false
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if open = append(open, conn); ended {
				_ = conn.Close() // nobody else does
			}
			mu.Unlock()
			running.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		ended = true
		for _, conn := range open {
			_ = conn.Close() // by the other side, perhaps
		}
		mu.Unlock()
		running.Wait()
	})
	return listener.Addr().String()
}
