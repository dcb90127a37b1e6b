package jetstream_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// tally is what a sink has got.
type tally struct {
	events  map[string]int // of objects, by namespace
	trimmed uint64         // by gap events
}

// readAll reads until a cursor has got or lacks n events, and no more.
func readAll(t *testing.T, c journal.Cursor, n int) tally {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	all := tally{events: map[string]int{}}
	for got := 0; got < n; {
		entries, err := c.Read(ctx, 100)
		if err != nil {
			t.Fatalf("Read after %d of %d events and %d trimmed: %v", got, n, all.trimmed, err)
		}
		for _, e := range entries {
			if e.Event.Gap != nil {
				all.trimmed += e.Event.Gap.Trimmed
				got += int(e.Event.Gap.Trimmed)
				continue
			}
			got++
			all.events[e.Event.Namespace]++
		}
	}
	silent(t, c)
	return all
}

// tenants appends what ten namespaces do: nine change small objects now and then, one changes
// a large object all the time. The last change of that makes it small.
type tenants struct {
	greedy string // its namespace
	now    clock
	large  object
	small  [9][3]object
}

const (
	tenantRounds = 12
	greedyEvents = tenantRounds * 10 // of 100 KB each: 12 MB
	smallEvents  = tenantRounds * 3
)

func newTenants(greedy string) *tenants {
	s := &tenants{greedy: greedy, large: object{name: "large"}}
	for i := range s.small {
		for k := range s.small[i] {
			s.small[i][k].name = fmt.Sprint("small-", k)
		}
	}
	return s
}

func (s *tenants) events(round int) (all []event.Event) {
	op := []event.Op{event.Added, event.Modified}[min(round, 1)]
	for i := range s.small {
		for k := range s.small[i] {
			e := s.small[i][k].event(&s.now, op)
			e.Namespace, e.Data = fmt.Sprint("tenant-", i), noise(2000)
			all = append(all, e)
		}
	}
	for i := range 10 {
		e := s.large.event(&s.now, []event.Op{op, event.Modified}[min(i, 1)])
		e.Namespace, e.Data = s.greedy, noise(100<<10)
		if round == tenantRounds-1 && i == 9 {
			e.Data = []byte("{}")
		}
		all = append(all, e)
	}
	return all
}

// TestShareOfANamespace: while a sink reads nothing, one of ten namespaces writes three times
// what the journal can hold. The events of all are appended. Of nine namespaces the sink gets
// every event, of the tenth it gets the number of those that were removed.
func TestShareOfANamespace(t *testing.T) {
	for _, one := range []struct {
		name, greedy string
		restart      bool
	}{
		{"running", "greedy", false},
		{"restarted", "greedy", true},
		{"cluster-scoped objects", "", true},
	} {
		t.Run(one.name, func(t *testing.T) {
			h := newHost(t)
			var log logged
			bounded := func(c *jetstream.Config) {
				c.MaxBytes, c.HistoryPerObject, c.Logger = 4<<20, 1000, slog.New(slog.NewTextHandler(&log, nil))
			}
			j := h.open(bounded)
			slow, fast := mustOpen(t, j, "slow", journal.FromNow), mustOpen(t, j, "fast", journal.FromNow)
			s := newTenants(one.greedy)
			for round := range tenantRounds {
				all := s.events(round)
				mustAppend(t, j, all...)
				read(t, fast, len(all))
				mustCommit(t, fast, j.Stats().LastSeq)
			}
			until(t, "what is counted of the stream is what it has", func() bool {
				counted, err := j.BytesByNamespace(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				sum := uint64(0)
				for _, n := range counted {
					sum += n
				}
				j.Look(t.Context())
				return sum == j.Stats().Bytes
			})
			again := j
			if one.restart {
				mustClose(t, j)
				again = h.open(bounded)
				slow = mustOpen(t, again, "slow", journal.FromNow)
			}
			got := readAll(t, slow, greedyEvents+9*smallEvents)
			shown := one.greedy
			if shown == "" {
				shown = journal.ClusterScoped
			}
			// While the sink reads, the journal may remove what the sink has already.
			least, most := uint64(0), j.Stats().Dropped[shown]
			if one.restart {
				least, most = most, most+again.Stats().Dropped[shown]
			}
			if got.trimmed < least || got.trimmed > most || len(j.Stats().Dropped) != 1 {
				t.Errorf("%v were removed, and later %v; the sink knows of %d that it lacks", j.Stats().Dropped, again.Stats().Dropped, got.trimmed)
			}
			if n := got.events[one.greedy]; got.trimmed == 0 || n+int(got.trimmed) != greedyEvents || n == 0 {
				t.Errorf("of %d events of the greedy namespace the sink got %d and lacks %d", greedyEvents, n, got.trimmed)
			}
			if !strings.Contains(log.String(), "["+shown+": ") && !strings.Contains(log.String(), `"[`+shown+": ") {
				t.Errorf("the log does not name the namespace:\n%s", log.String())
			}
			t.Logf("%d of %d removed, %d declared", most, greedyEvents, got.trimmed)
		})
	}
}

// TestShareKeepsDeletions: a deletion that a sink has not read stays although the name is used
// again, and the object's namespace loses other events.
func TestShareKeepsDeletions(t *testing.T) {
	h := newHost(t)
	bounded := func(c *jetstream.Config) { c.MaxBytes, c.HistoryPerObject = 1<<20, 1000 }
	j := h.open(bounded)
	mustOpen(t, j, "slow", journal.FromNow)
	var now clock
	o := &object{name: "again"}
	for range 30 {
		for _, op := range []event.Op{event.Added, event.Modified, event.Deleted} {
			e := o.event(&now, op)
			if op == event.Modified {
				e.Data = noise(100 << 10)
			}
			mustAppend(t, j, e)
		}
	}
	mustClose(t, j)
	c := mustOpen(t, h.open(bounded), "slow", journal.FromNow)
	deleted := map[string]bool{}
	gone := uint64(0)
	for len(deleted) < 30 {
		for _, e := range read(t, c, 1) {
			if e.Event.Op == event.Deleted {
				deleted[e.Event.ID] = true
			}
			if e.Event.Gap != nil {
				gone += e.Event.Gap.Trimmed
			}
		}
	}
	if gone == 0 {
		t.Error("nothing was removed")
	}
}

// TestShareKeepsSnapshots: the last event of an object in a complete snapshot that a sink has
// not read stays, although it is superseded. The end of the snapshot waits for what the sink lacks.
func TestShareKeepsSnapshots(t *testing.T) {
	h := newHost(t)
	bounded := func(c *jetstream.Config) { c.MaxBytes, c.HistoryPerObject = 1<<20, 1000 }
	j := h.open(bounded)
	mustOpen(t, j, "slow", journal.FromNow)
	var now clock
	a, greedy := &object{name: "a"}, &object{name: "greedy"}
	listed := a.event(&now, event.Added)
	listed.Data = noise(100 << 10)
	mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), listed, bound(event.Synced, "core/configmaps", 3), a.event(&now, event.Modified))
	for i := range 20 {
		e := greedy.event(&now, []event.Op{event.Added, event.Modified}[min(i, 1)])
		e.Data = noise(100 << 10)
		mustAppend(t, j, e)
	}
	mustClose(t, j)
	c := mustOpen(t, h.open(bounded), "slow", journal.FromNow)
	var got []string
	lacks := uint64(0)
	for len(got)+int(lacks) < 24 {
		for _, e := range read(t, c, 1) {
			if e.Event.Gap != nil {
				lacks += e.Event.Gap.Trimmed
				continue
			}
			got = append(got, string(e.Event.Op)+" "+e.Event.Name)
		}
	}
	if diff := cmp.Diff([]string{"begin ", "added a", "modified a"}, got[:3]); diff != "" || lacks == 0 || got[len(got)-1] != "synced " {
		t.Errorf("%d are lacking; %s; at last %q", lacks, diff, got[len(got)-1])
	}
}

// TestShareInASnapshot: one object fills the journal while a snapshot of its resource has no
// end, and a sink reads nothing. Events of others and the end are appended. The sink gets an
// event of every object between the beginning and the end, one that counts for a consumer.
func TestShareInASnapshot(t *testing.T) {
	const target = "core/configmaps"
	for _, one := range []struct {
		name   string
		before uint64 // run of an earlier snapshot, which has no end
		early  bool   // the end is there before the journal is full
	}{
		{"under way", 0, false},
		{"under way after one without an end", 3, false},
		{"complete after one without an end", 3, true},
	} {
		t.Run(one.name, func(t *testing.T) {
			h := newHost(t)
			bounded := func(c *jetstream.Config) { c.MaxBytes, c.HistoryPerObject = 1<<20, 1000 }
			j := h.open(bounded)
			mustOpen(t, j, "slow", journal.FromNow)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			add := func(what string, events ...event.Event) {
				t.Helper()
				if err := j.Append(ctx, events); err != nil {
					t.Fatalf("%s cannot be appended: %v; dropped: %v", what, err, j.Stats().Dropped)
				}
			}
			var now clock
			quiet, greedy, other := &object{name: "quiet"}, &object{name: "greedy"}, &object{name: "other"}
			added := quiet.event(&now, event.Added)
			added.Data = noise(50 << 10)
			add("an object", added)
			for run := uint64(3); run <= 4; run++ {
				if run == 4 || run == one.before {
					listed := quiet.announcedAgain(run)
					listed.Data = noise(50 << 10)
					add("the list", bound(event.Begin, target, run), listed)
				}
			}
			again := quiet.announcedAgain(5000) // by resync: it does not count
			again.Data = noise(50 << 10)
			end := bound(event.Synced, target, 4)
			if add("resync", again); one.early {
				add("the end", end)
			}
			for i := range 30 {
				e := greedy.event(&now, []event.Op{event.Added, event.Modified}[min(i, 1)])
				e.Data = noise(100 << 10)
				add("a change", e)
			}
			secret := other.event(&now, event.Added)
			secret.Target, secret.Resource, secret.Kind, secret.Namespace = "core/secrets", "secrets", "Secret", "other"
			if add("an event of another resource", secret); !one.early {
				add("the end", end)
			}
			if j.Stats().Dropped["default"] == 0 || len(j.Stats().Dropped) != 1 {
				t.Errorf("dropped: %v", j.Stats().Dropped)
			}
			mustClose(t, j)
			c := mustOpen(t, h.open(bounded), "slow", journal.FromNow)
			shown, open, lacks := map[string]bool{}, false, uint64(0)
			for ended := false; !ended; {
				switch e := read(t, c, 1)[0].Event; {
				case e.Gap != nil:
					lacks += e.Gap.Trimmed
				case e.Op.Bounds():
					open = open || e.Run == 4
					ended = e.Op == event.Synced
				case open && (e.Run == 0 || e.Run == 4) && e.Target == target:
					shown[e.Name] = true
				}
			}
			want := map[string]bool{"quiet": true, "greedy": true}
			if diff := cmp.Diff(want, shown); diff != "" || lacks == 0 {
				t.Errorf("%d events are lacking; objects in the snapshot (-want +got):\n%s", lacks, diff)
			}
		})
	}
}

// TestNothingIsSharedBeforeSinksAreKnown: a journal that is opened short of space removes
// nothing before a sink is open.
func TestNothingIsSharedBeforeSinksAreKnown(t *testing.T) {
	h := newHost(t)
	j := h.open()
	mustOpen(t, j, "slow", journal.FromNow)
	var now clock
	o := &object{name: "a"}
	var all []event.Event
	for i := range 12 {
		e := o.event(&now, []event.Op{event.Added, event.Modified}[min(i, 1)])
		e.Data = noise(100 << 10)
		all = append(all, e)
	}
	mustAppend(t, j, all...)
	mustClose(t, j)
	j = h.open(func(c *jetstream.Config) { c.Own, c.MaxBytes = true, 1300<<10 })
	if err := j.MakeSpace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := j.Stats(); got.Dropped != nil || got.Events != 12 {
		t.Errorf("%+v", got)
	}
	fast := mustOpen(t, j, "fast", journal.FromNow)
	mustCommit(t, fast, 12)
	if err := j.MakeSpace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if j.Stats().Dropped["default"] == 0 {
		t.Errorf("with a sink nothing was removed: %+v", j.Stats())
	}
}
