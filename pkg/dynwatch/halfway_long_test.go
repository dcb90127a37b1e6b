//go:build long

package dynwatch_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
)

// undeclared is wrong, less what a gap excuses: once etcd has forgotten which namespaces matched,
// objects that are not selected any more need no end.
func undeclared(events []event.Event, api *fakeAPI) []string {
	forgotten := slices.ContainsFunc(events, func(e event.Event) bool { return e.Op == event.Gap && e.Gap.Reason == "selection" })
	return slices.DeleteFunc(wrong(events, api, false), func(fault string) bool {
		return forgotten && api.forgotten() && !strings.Contains(fault, ", want ")
	})
}

// forgotten reports whether etcd was compacted.
func (f *fakeAPI) forgotten() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.compacted > 0
}

// halfway is an accident in the middle of a change of a namespace.
type halfway struct {
	matches bool // at the beginning
	// before are changes during which informd is killed, meanwhile are those until it starts again.
	before, meanwhile func(*fakeAPI)
}

func several(changes ...func(*fakeAPI)) func(*fakeAPI) {
	return func(api *fakeAPI) {
		for _, change := range changes {
			change(api)
		}
	}
}

// life is what happens in a namespace: a new object, changes, a deletion.
func life(api *fakeAPI) {
	api.put("team-a", "two", "")
	api.put("team-a", fmt.Sprint("new-", api.put("team-b", "x", "")), "")
	api.del("team-a", "three")
	api.put("team-a", "three", "")
}

func halfways() map[string]halfway {
	on, off, nothing := relabel("yes"), relabel("no"), func(*fakeAPI) {}
	all := make(map[string]halfway)
	for name, meanwhile := range map[string]func(*fakeAPI){
		"nothing":                     nothing,
		"life":                        life,
		"it changes back":             nil,
		"it changes back, life":       nil,
		"it matches for a while":      several(off, life, on, life, off, life),
		"it matches for a quiet time": several(off, on, off, life),
		"it matches again":            several(off, life, on, life),
		"it is deleted":               several(on, life, emptied),
		"it is deleted and created":   several(life, emptied, on, life),
	} {
		enters, leaves := meanwhile, meanwhile
		switch name {
		case "it changes back":
			enters, leaves = off, on
		case "it changes back, life":
			enters, leaves = several(life, off, life), several(life, on, life)
		}
		all["it comes to match; "+name] = halfway{false, on, enters}
		all["it no longer matches; "+name] = halfway{true, off, leaves}
		all["it no longer matches, life; "+name] = halfway{true, several(life, off, life), leaves}
		all["it comes to match, life; "+name] = halfway{false, several(life, on, life), enters}
	}
	return all
}

// TestKilledWhileANamespaceChanges: informd is killed after some of the events and checkpoints that
// follow from a change of a namespace, and the namespace changes more until the next start. One of the
// two watches may be behind, and history may be lost meanwhile.
func TestKilledWhileANamespaceChanges(t *testing.T) {
	s := newSeed(t)
	for name, h := range halfways() {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(s, uint64(len(name))))
			for room := rnd.IntN(6); ; room += 6 {
				behind, lost := rnd.IntN(3), rnd.IntN(3)
				if !h.run(t, room, behind, lost) {
					return
				}
				if t.Failed() {
					t.Fatalf("killed after %d records; watch behind: %d, history lost: %d", room, behind, lost)
				}
			}
		})
	}
}

// run is one run of it. It returns false if the process was not killed, as it had nothing more to write.
func (h *halfway) run(t *testing.T, room, behind, lost int) (more bool) {
	api := newFakeAPI(t)
	api.put("", "team-a", map[bool]string{true: "yes", false: "no"}[h.matches])
	api.put("", "team-b", "yes")
	for _, name := range []string{"one", "two", "three", "four"} {
		api.put("team-a", name, "")
	}
	api.put("team-b", "x", "")
	r := live(t, api, labelled())
	r.log.set(func() { r.log.room = &room })
	api.do(func() {
		api.slow = func(r *http.Request) bool { return behind > 0 && (r.URL.Path == namespacesPath) == (behind == 1) }
	})
	h.before(api)
	began, last := time.Now(), api.changes()[len(api.changes())-1].rev
	killed := false
	r.eventually("killed, or through", func() bool {
		r.log.set(func() { killed = r.log.dying })
		through := r.manager.Targets()[0].ResourceVersion == last && len(wrong(r.log.all(), api, false)) == 0
		return killed || through || behind > 0 && time.Since(began) > 100*time.Millisecond
	})
	r.stop(true)
	r.log.set(func() { r.log.room = nil })
	h.meanwhile(api)
	api.do(func() { api.slow = nil })
	if lost > 0 {
		api.forget()
	}
	if lost > 1 {
		api.compact()
	}
	n := len(r.log.all())
	r.goLive(labelled())
	r.within(10*time.Second, "what is in the stream is what matches", func() bool { return len(undeclared(r.log.all(), api)) == 0 })
	checkLegal(t, r.log.all())
	if faults := incomplete(r.log.all(), api, "team-a"); len(faults) > 0 {
		t.Errorf("neither events nor in a gap:\n%s\nafter the restart:\n%s", strings.Join(faults, "\n"), strings.Join(r.since(n), "\n"))
	}
	r.wantAudit(0)
	r.stop(false)
	return killed || behind > 0 // then more can be written
}
