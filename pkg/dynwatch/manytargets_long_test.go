//go:build long

package dynwatch_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
)

// An API server that serves 80 requests at a time, as one with priority and fairness
// does, refuses nothing at the start of 200 targets.
func TestStartOfManyTargets(t *testing.T) {
	const targets, atOnce, quiet = 200, 80, 100 * time.Millisecond
	api := newFakeAPI(t)
	api.serveAll(group("many.example.com", kinds(targets)...))
	var serving, refused, reviewed, last atomic.Int64
	// It answers once no other request has come for a while.
	serve := func(w http.ResponseWriter) bool {
		defer serving.Add(-1)
		if serving.Add(1) > atOnce {
			refused.Add(1)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
			return true
		}
		last.Store(time.Now().UnixNano())
		for wait := quiet; wait > 0; wait = quiet - time.Since(time.Unix(0, last.Load())) {
			<-time.After(wait)
		}
		return false
	}
	api.refuse = func(w http.ResponseWriter, _ *http.Request) bool { return serve(w) }
	api.review = func(w http.ResponseWriter, _ *http.Request) {
		reviewed.Add(1)
		if !serve(w) {
			writeReview(w, true)
		}
	}
	api.define()
	api.pulse = time.Second // so many watches need the processor
	r := start(t, api)
	r.manager.SetTurn(time.Hour) // a busy machine makes three requests take longer than a turn
	must(t, r.manager.Apply([]dynwatch.Resource{{Group: "many.example.com", Resource: "*"}}))
	r.within(5*time.Minute, "all targets are live", func() bool { return r.live() == targets })
	if n := refused.Load(); n > 0 {
		t.Errorf("the API server refused %d requests", n)
	}
	if n := reviewed.Load(); n > targets/2 {
		t.Errorf("permissions were asked for %d times, where one answer allows everything", n)
	}
}

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
