package endpoint

import (
	"net"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLateConnection: a connection that was still being made when the client was closed does not stay open.
func TestLateConnection(t *testing.T) {
	all := &conns{open: map[*conn]struct{}{}}
	early, _ := net.Pipe()
	late, peer := net.Pipe()
	if _, err := all.add(early, nil); err != nil {
		t.Fatal(err)
	}
	all.close()
	if _, err := early.Write([]byte("x")); err == nil {
		t.Error("an open connection is still open")
	}
	if _, err := all.add(late, nil); err == nil {
		t.Error("a late connection is taken")
	}
	if _, err := peer.Write([]byte("x")); err == nil || len(all.open) > 0 {
		t.Errorf("a late connection is still open (%d are known)", len(all.open))
	}
}
