package postgres

import (
	"log/slog"
	"testing"

	"github.com/informd/informd/pkg/sink"
)

// TestLossIsNoticedOnce: what informd repeats after a loss has no sequence, and must not look like another loss.
func TestLossIsNoticedOnce(t *testing.T) {
	s := newTables(new(Config), sink.Env{Logger: slog.New(slog.DiscardHandler)})
	p := place{identity: "before", log: "a", sequence: 3, position: 3}
	at := sink.Positions{Log: "a", Seqs: []uint64{0}, Acknowledged: 16}
	s.compare(&p, at)
	noticed := p.identity
	s.compare(&p, at)
	if noticed == "before" || p.identity != noticed {
		t.Errorf("identities %q and %q", noticed, p.identity)
	}
}
