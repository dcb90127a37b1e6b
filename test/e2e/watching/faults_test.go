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
	e2e.Must(t, w.Create(t.Context(), "hot"))
	for range 100 {
		e2e.Must(t, w.Update(t.Context(), "hot"))
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
