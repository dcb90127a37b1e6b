package journal_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/journaltest"
)

// TestMemoryFreesWhatIsCommitted watches the data of committed events that are too
// large for the journal's own memory being collected while newer ones stay.
func TestMemoryFreesWhatIsCommitted(t *testing.T) {
	const n, size = 200, 100_000
	j := journal.NewMemory(1 << 30)
	c := open(t, j, "a")
	data := make([]weak.Pointer[byte], 0, n)
	for range n {
		mustAppend(t, j, []event.Event{{Data: make([]byte, size)}})
	}
	for _, e := range journaltest.ReadAll(t, c, n, 10) {
		data = append(data, weak.Make(&e.Event.Data[0]))
	}
	commit(t, c, n-1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Read(ended, 1); !errors.Is(err, context.Canceled) { // it lets go of what it has returned
		t.Fatalf("Read = %v", err)
	}
	runtime.GC()
	alive := 0
	for i := range data {
		if data[i].Value() != nil {
			alive++
		}
	}
	if alive > 1 || data[n-1].Value() == nil {
		t.Errorf("%d of %d events are still alive, want the last one, which is not committed", alive, n)
	}
	runtime.KeepAlive(j)
}

// TestMemoryGoesRound: what events carry lies in the same memory again and again, as
// much of it if they are committed at once as if the journal is full.
func TestMemoryGoesRound(t *testing.T) {
	const capacity, size, rounds = 4 << 20, 5000, 5
	j := journal.NewMemory(capacity)
	c := open(t, j, "a")
	x := []event.Event{{ID: "e", Data: bytes.Repeat([]byte{'x'}, size)}}
	y := []event.Event{{ID: "e", Data: bytes.Repeat([]byte{'y'}, size)}}
	mustAppend(t, j, x)
	kept := journaltest.ReadAll(t, c, 1, 1)[0].Event.Data
	if string(kept) != strings.Repeat("x", size) {
		t.Fatalf("read %.20q", kept)
	}
	commit(t, c, 1)
	for range rounds * capacity / size {
		mustAppend(t, j, y)
		commit(t, c, j.Stats().LastSeq)
	}
	idle := journal.ArenaBytes(j)
	if idle != capacity {
		t.Errorf("%d bytes are used in turn, want all %d", idle, capacity)
	}
	if bytes.ContainsRune(kept, 'x') {
		t.Error("what was committed was not written over")
	}
	for j.Stats().Bytes+size+1000 < capacity {
		mustAppend(t, j, y)
	}
	if full := journal.ArenaBytes(j); full != idle {
		t.Errorf("a full journal has %d bytes, one that was nearly empty %d", full, idle)
	}
	allocated := testing.AllocsPerRun(1000, func() {
		commit(t, c, j.Stats().LastSeq)
		mustAppend(t, j, y)
	})
	if allocated > 0 {
		t.Errorf("%.0f allocations for each event, want none", allocated)
	}
}
