//go:build long

package dynwatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
)

// TestManyTargetsAfterARestart: each target makes few requests for lost history, and comes back complete.
func TestManyTargetsAfterARestart(t *testing.T) {
	const targets, revisions = 300, 20
	api := newFakeAPI(t)
	wanted := things()
	for i := range targets {
		wanted.Namespaces = append(wanted.Namespaces, fmt.Sprintf("ns-%d", i))
	}
	api.do(func() { api.pulse = time.Second })
	r := start(t, api)
	r.manager.SetTiming(time.Minute, time.Second, 20*time.Millisecond)
	must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
	r.within(2*time.Minute, "all targets live", r.isCaughtUp)
	api.do(func() { api.mute = true })
	for i := range revisions {
		api.put(fmt.Sprintf("ns-%d", i), "x", "")
	}
	before, exact := api.requestsWith("/things?"), api.requestsWith("resourceVersionMatch=Exact")
	api.forget()
	api.do(func() { api.mute = false })
	r.within(2*time.Minute, "all targets live again", r.isCaughtUp)
	checkStream(t, r.log.all(), api)
	// Each target compares one list, and looks up and walks what differs.
	if n := api.requestsWith("resourceVersionMatch=Exact") - exact; n > targets+6*revisions {
		t.Errorf("%d lists at exact revisions", n)
	}
	if n := api.requestsWith("/things?") - before; n > 12*targets {
		t.Errorf("%d requests", n)
	}
}
