package watching_test

import (
	"context"
	"testing"
	"time"

	"github.com/informd/informd/test/e2e"
)

func TestServerRefusesWatches(t *testing.T) {
	r := e2e.StartFaultRig(t, "")
	r.Write(10)
	lists := r.Lists()
	r.Proxy.Set(func() { r.Proxy.RefuseWatches = true })
	r.Proxy.CutNow()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w := e2e.NewWriter(r.Client, r.Kinds[0], r.Ledger, 99)
	w.Adopt(t)
	if err := w.Create(t.Context(), "hot"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := w.Update(t.Context(), "hot"); err != nil {
			t.Fatal(err)
		}
	}
	<-ctx.Done() // the refusal is to last 10 s
	r.Proxy.Set(func() {
		r.Proxy.RefuseWatches = false
		if r.Proxy.Refused == 0 {
			t.Error("no watch was refused")
		}
	})
	r.Finish(t, e2e.Claim{})
	r.Resumed(lists)
}

func TestCompactedWhileCut(t *testing.T) {
	for name, later := range map[string]int{"quiet afterwards": 0, "busy afterwards": 30} {
		t.Run(name, func(t *testing.T) {
			r := e2e.StartFaultRig(t, "")
			r.Write(60)
			o := r.Cut()
			r.Proxy.Set(func() { r.Proxy.RefuseWatches = true })
			r.Proxy.CutNow()
			r.Write(100)
			// The API server's own memory of the history goes with its process,
			// etcd's with the compaction.
			r.RestartAPIServer(r.Compact)
			r.Write(later)
			r.Proxy.Set(func() { r.Proxy.RefuseWatches = false })
			e2e.Eventually(t, "a gap for each kind", func() bool { return e2e.Count(r.Informd.Records(), "gap") >= len(r.Kinds) })
			r.Restore(&o)
			r.Finish(t, e2e.Claim{Outages: []e2e.Outage{o}})
			for _, k := range r.Kinds {
				if gaps := r.Gaps(k); len(gaps) != 1 {
					t.Errorf("%s: gaps %+v, want one", k.Target(), gaps)
				}
			}
		})
	}
}
