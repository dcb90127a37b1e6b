package sinks_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/natsserver"
)

// shortWindow is the shortest duplicate window that the server takes: what is
// repeated after it, only the sink itself can prevent.
const shortWindow = 100 * time.Millisecond

// createStream makes the stream as a user would, with what change does to it.
func createStream(t *testing.T, js jetstream.JetStream, change func(c *jetstream.StreamConfig)) {
	t.Helper()
	c := jetstream.StreamConfig{Name: streamName, Subjects: []string{"k8s.>"}, AllowDirect: true}
	if change != nil {
		change(&c)
	}
	if _, err := js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// wantOnce holds the stream to the events: each once, in order per object.
func wantOnce(t *testing.T, js jetstream.JetStream, events []event.Event) {
	t.Helper()
	times, revision := map[string]int{}, map[string]uint64{}
	for _, m := range stored(t, js, streamName) {
		id := m.Header.Get("ce-id")
		if times[id]++; times[id] > 1 {
			t.Errorf("the stream holds %s %d times", id, times[id])
		}
		rv, err := strconv.ParseUint(m.Header.Get("ce-resourceversion"), 10, 64)
		must(t, err)
		if rv <= revision[m.Subject] {
			t.Errorf("subject %s: revision %d after %d", m.Subject, rv, revision[m.Subject])
		}
		revision[m.Subject] = rv
	}
	for i := range events {
		if times[events[i].ID] == 0 {
			t.Errorf("event %d, %s, is lost", i, events[i].ID)
		}
	}
	if extra := len(times) - len(events); extra != 0 {
		t.Errorf("the stream holds %d ids more than were written", extra)
	}
}

// busy returns n events of objects that all change all the time: many can be on
// their way at once.
func busy(n int) []event.Event {
	const objects = 300
	events := make([]event.Event, n)
	template := sinktest.Events(1)[0]
	for i := range events {
		e := template
		e.Op, e.Name, e.UID = event.Modified, fmt.Sprintf("busy-%d", i%objects), fmt.Sprintf("uid-busy-%d", i%objects)
		e.ResourceVersion, e.Ordinal = uint64(1000+i), uint64(i/objects+1)
		e.ID = form.ObjectID(e.UID, e.ResourceVersion, 0)
		e.Time = template.Time.Add(time.Duration(i) * time.Microsecond)
		events[i] = e
	}
	return events
}

// TestNATSKilledUnderLoad kills the server again and again while events are
// written, and every few times replaces the sink by one that starts from an
// older cursor, as after a crash of informd.
func TestNATSKilledUnderLoad(t *testing.T) {
	const kills, size, behind = 20, 400, 900
	ctx := t.Context()
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	createStream(t, js, func(c *jetstream.StreamConfig) { c.Duplicates = shortWindow })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	options := config(t, server.URL(), useJetStream)
	s := open(t, options)
	events := busy(1 << 17)
	done, most, failures := 0, 0, 0
	for round := range kills {
		stop := make(chan struct{})
		killed := make(chan error, 1)
		delay := time.Duration(20+random.IntN(250)) * time.Millisecond
		go func() {
			pause(ctx, delay)
			err := server.Kill()
			pause(ctx, 2*shortWindow)
			if err == nil {
				err = server.Start(ctx)
			}
			killed <- err
			close(stop)
		}()
		for running := true; running; {
			batch := events[done:min(done+size, len(events))]
			n, err := s.Write(ctx, batch)
			done += n
			most = max(most, done)
			if err != nil {
				failures++
				pause(ctx, 10*time.Millisecond)
			}
			select {
			case <-stop:
				running = false
			default:
			}
		}
		must(t, <-killed)
		if round%4 == 3 {
			must(t, s.Close(ctx))
			s = open(t, options)
			done = max(0, done-random.IntN(behind))
		}
	}
	most += size // a Write that failed may have sent more than it said
	sinktest.Deliver(t, s, events[done:most])
	t.Logf("%d kills, %d events, %d failed writes", kills, most, failures)
	wantOnce(t, js, events[:most])
}

// TestNATSFrozen freezes the server under a Write, thaws it when that has given
// up, and writes again: what was on its way arrives as well.
func TestNATSFrozen(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	s := open(t, config(t, server.URL(), useJetStream))
	events := sinktest.Events(2000)
	done := 0
	for range 5 {
		sinktest.Deliver(t, s, events[done:done+100])
		done += 100
		must(t, server.Freeze())
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		started := time.Now()
		n, err := s.Write(ctx, events[done:done+200])
		cancel()
		if err == nil {
			t.Fatal("Write to a frozen server succeeded")
		}
		if took := time.Since(started); took > 3*time.Second {
			t.Errorf("Write took %v with a context of 300ms", took)
		}
		must(t, server.Thaw())
		sinktest.Deliver(t, s, events[done+n:done+200])
		done += 200
	}
	wantOnce(t, js, events[:done])
}

func TestNATSAbsentAtOpen(t *testing.T) {
	server := startServer(t)
	must(t, server.Kill())
	started := time.Now()
	s := open(t, config(t, server.URL(), useJetStream))
	events := sinktest.Events(20)
	err := writeFails(t, s, events, 5*time.Second)
	if took := time.Since(started); took > 3*time.Second {
		t.Errorf("Open and Write took %v without a server", took)
	}
	if !strings.Contains(err.Error(), "refused") {
		t.Errorf("Write: %v, want a word of the refused connection", err)
	}
	must(t, server.Start(t.Context()))
	sinktest.Deliver(t, s, events)
	wantOnce(t, jetStream(t, dial(t, server.URL())), events)
}

func TestNATSTooLarge(t *testing.T) {
	tests := map[string]struct {
		options natsserver.Options
		stream  func(c *jetstream.StreamConfig)
		limit   string
	}{
		"server": {limit: "1048576"},
		"stream": {
			options: natsserver.Options{MaxPayload: maxPayload},
			stream:  func(c *jetstream.StreamConfig) { c.MaxMsgSize = 64 << 10 },
			limit:   "65536",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := natsserver.Start(t, tt.options)
			js := jetStream(t, dial(t, server.URL()))
			createStream(t, js, tt.stream)
			s := open(t, config(t, server.URL(), useJetStream))
			good, big := sinktest.Events(20), sinktest.Big(1, 3<<19)
			batch := append(append(append([]event.Event(nil), good[:7]...), big...), good[7:]...)
			n, err := s.Write(t.Context(), batch)
			if n != 7 || !isPermanent(err) {
				t.Fatalf("Write returned %d and %v, want 7 and a permanent error", n, err)
			}
			for _, word := range []string{tt.limit, strconv.Itoa(len(big[0].Data))[:4]} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error %q does not say %s", err, word)
				}
			}
			sinktest.Deliver(t, s, batch[8:])
			wantOnce(t, js, good)
		})
	}
}

// unlimit takes the stream's limits away.
func unlimit(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	stream, err := js.Stream(t.Context(), streamName)
	must(t, err)
	c := stream.CachedInfo().Config
	c.MaxMsgs, c.MaxBytes = -1, -1
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// TestNATSFullKeepsOrder fills the stream with one object that changes between big
// and small: where there is no room for a big state, a small one that comes later
// must not slip in before it.
func TestNATSFullKeepsOrder(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	createStream(t, js, func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardNew, 1<<20 })
	s := open(t, config(t, server.URL(), useJetStream))
	events := busy(300 * 60) // 60 states of each object
	var one []event.Event
	for i := 0; i < len(events); i += 300 {
		e := events[i]
		if len(one)%2 == 1 {
			e.Data = sinktest.Big(1, 60<<10)[0].Data
		}
		one = append(one, e)
	}
	n, err := s.Write(t.Context(), one)
	if err == nil || isPermanent(err) || !strings.Contains(err.Error(), "maximum bytes exceeded") {
		t.Fatalf("Write returned %d and %v, want an error that passes", n, err)
	}
	wantOnce(t, js, one[:n])
	if n, err := s.Write(t.Context(), one[n:]); n != 0 || err == nil {
		t.Errorf("the next Write returned %d and %v, want 0 and an error", n, err)
	}
	unlimit(t, js)
	sinktest.Deliver(t, s, one[n:])
	wantOnce(t, js, one)
}

// TestNATSComesBackUnchanged lets an object leave and come back in the revision
// that it had before: the stream knows the id, but must not end with the leaving.
func TestNATSComesBackUnchanged(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	s := open(t, config(t, server.URL(), useJetStream))
	added := sinktest.Events(1)[0]
	left := added
	left.Op, left.ID, left.Time = event.Left, form.SelectionID(added.UID, added.ResourceVersion, event.Left, 2000, 0), added.Time.Add(time.Second)
	back := added
	back.Op, back.Time = event.Snapshot, left.Time.Add(time.Second)
	for range 2 {
		sinktest.Deliver(t, s, []event.Event{added, left, back})
		all := stored(t, js, streamName)
		if got := all[len(all)-1].Header.Get("ce-id"); got != back.ID {
			t.Fatalf("the stream ends with %s, want %s", got, back.ID)
		}
	}
}

// TestNATSRepeatedAfterRestart starts sinks from ever older cursors, long after
// the duplicate window has ended.
func TestNATSRepeatedAfterRestart(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	createStream(t, js, func(c *jetstream.StreamConfig) { c.Duplicates = shortWindow })
	events := sinktest.Events(1500)
	options := config(t, server.URL(), useJetStream)
	for _, span := range [][2]int{{0, 1000}, {990, 1000}, {700, 1200}, {0, 1200}, {1199, 1500}} {
		pause(t.Context(), 2*shortWindow)
		s := open(t, options)
		for at := span[0]; at < span[1]; at += 100 {
			sinktest.Deliver(t, s, events[at:min(at+100, span[1])])
		}
		must(t, s.Close(t.Context()))
		wantOnce(t, js, events[:max(span[1], len(stored(t, js, streamName)))])
	}
}

// TestNATSObservedAgain: the journal has lost events that the stream has, with names that had
// several objects. The watch brings them again, as observed now, before new ones.
func TestNATSObservedAgain(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	options := config(t, server.URL(), useJetStream)
	start := sinktest.Events(1)[0]
	var events []event.Event
	for rv := uint64(1001); rv <= 1040; rv++ {
		e := start
		e.UID, e.ResourceVersion, e.Time = fmt.Sprint("uid-", rv/4), rv, start.Time.Add(time.Duration(rv)*time.Second)
		e.Op, e.ID = event.Modified, form.ObjectID(e.UID, rv, 0)
		switch rv % 4 {
		case 0:
			e.Op = event.Added
		case 3:
			e.Op, e.ID = event.Deleted, form.DeletedID(e.UID, 0)
		}
		events = append(events, e)
	}
	sinktest.Deliver(t, open(t, options), events[:20])
	for round, from := range []int{19, 10, 2} {
		again := slices.Clone(events[from:])
		for i := range again {
			again[i].Time = again[i].Time.Add(time.Duration(round+1) * time.Hour)
		}
		for at := 0; at < len(again); at += 5 {
			sinktest.Deliver(t, open(t, options), again[at:min(at+5, len(again))])
		}
		wantOnce(t, js, events)
	}
}

// TestNATSRepeatedUnderReusedName starts a sink again before a deletion that a comparison
// found: its revision is higher than that of the object which has the name since.
func TestNATSRepeatedUnderReusedName(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	options := config(t, server.URL(), useJetStream)
	added := sinktest.Events(1)[0]
	deleted := added
	deleted.Op, deleted.UID, deleted.ResourceVersion = event.Deleted, "former", added.ResourceVersion+100
	deleted.ID = form.DeletedID(deleted.UID, 0)
	batch := []event.Event{deleted, added}
	for range 2 {
		s := open(t, options)
		sinktest.Deliver(t, s, batch)
		must(t, s.Close(t.Context()))
	}
	all := stored(t, js, streamName)
	if len(all) != 2 || all[0].Header.Get("ce-id") != deleted.ID || all[1].Header.Get("ce-id") != added.ID {
		t.Errorf("the stream has %d messages, want the deletion and what followed it, once each", len(all))
	}
}

// TestNATSRollback gives an object lower revisions than the stream has of it, as
// after etcd was restored: they must arrive.
func TestNATSRollback(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	options := config(t, server.URL(), useJetStream)
	before := sinktest.Events(1)[0]
	for _, epoch := range []uint64{1, 0} { // 0: the memory journal, which cannot count across a restart
		s := open(t, options)
		sinktest.Deliver(t, s, []event.Event{before})
		after := before
		after.ResourceVersion -= 10
		after.Time = after.Time.Add(time.Minute)
		after.ID = form.ObjectID(after.UID, after.ResourceVersion, epoch)
		s = open(t, options)
		sinktest.Deliver(t, s, []event.Event{after})
		all := stored(t, js, streamName)
		if got := all[len(all)-1].Header.Get("ce-id"); got != after.ID {
			t.Fatalf("epoch %d: the stream ends with %s, want %s", epoch, got, after.ID)
		}
		before.ResourceVersion, before.ID = before.ResourceVersion+10, fmt.Sprintf("%s:%d", before.UID, before.ResourceVersion+10)
		before.Time = after.Time.Add(time.Minute)
	}
}
