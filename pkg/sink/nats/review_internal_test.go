package nats

import (
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	eventform "github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// TestCovers is about the decision that could lose an event if it were wrong.
func TestCovers(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 123456789, time.UTC)
	at := func(op event.Op, rv, epoch uint64, after time.Duration) event.Event {
		e := event.Event{
			ID: eventform.ObjectID("u", rv, epoch), Op: op, Time: now.Add(after), Cluster: "c", Resource: "pods", Namespace: "n", Name: "x",
			UID: "u", ResourceVersion: rv, Epoch: epoch,
		}
		if op == event.Deleted {
			e.ID = eventform.DeletedID("u", epoch)
		}
		if op == event.Left {
			e.ID = eventform.SelectionID("u", rv, op, rv+5, epoch)
		}
		return e
	}
	other := func(op event.Op, rv uint64, found bool) event.Event {
		e := at(op, rv, 0, 0)
		e.ID, e.UID, e.Replay = strings.Replace(e.ID, "u", "v", 1), "v", found
		return e
	}
	tests := map[string]struct {
		last, sent event.Event
		taken      bool // the stream has refused the id as known
		want       bool
	}{
		"the event itself":                        {at(event.Modified, 10, 0, 0), at(event.Modified, 10, 0, 0), false, true},
		"itself, observed again":                  {at(event.Modified, 10, 0, 0), at(event.Snapshot, 10, 0, time.Hour), false, true},
		"a deletion found twice":                  {at(event.Deleted, 10, 0, 0), at(event.Deleted, 12, 0, time.Hour), false, true},
		"a later one":                             {at(event.Modified, 11, 0, time.Second), at(event.Modified, 10, 0, 0), false, true},
		"a later one at the same time":            {at(event.Modified, 11, 0, 0), at(event.Modified, 10, 0, 0), false, true},
		"the deletion":                            {at(event.Deleted, 11, 0, time.Second), at(event.Modified, 10, 0, 0), false, true},
		"an earlier one":                          {at(event.Modified, 9, 0, -time.Second), at(event.Modified, 10, 0, 0), false, false},
		"left at the same revision":               {at(event.Left, 10, 0, time.Second), at(event.Modified, 10, 0, 0), false, false},
		"before a rollback":                       {at(event.Modified, 99, 0, -time.Second), at(event.Modified, 10, 1, 0), false, false},
		"before a rollback, wrong clock":          {at(event.Modified, 99, 0, time.Second), at(event.Modified, 10, 1, 0), false, false},
		"before an uncounted rollback":            {at(event.Modified, 99, 0, -time.Second), at(event.Snapshot, 10, 0, 0), false, false},
		"after the rollback, from before":         {at(event.Modified, 99, 1, time.Second), at(event.Modified, 10, 0, 0), false, true},
		"lower after the rollback":                {at(event.Modified, 9, 1, time.Second), at(event.Modified, 10, 0, 0), false, true},
		"of an earlier count of epochs":           {at(event.Modified, 99, 1, -time.Second), at(event.Modified, 10, 0, 0), false, false},
		"an event without revision number":        {at(event.Modified, 99, 0, time.Second), at(event.Modified, 0, 0, 0), false, false},
		"observed again, behind a later state":    {at(event.Modified, 11, 0, 0), at(event.Modified, 10, 0, time.Hour), false, true},
		"observed again, behind the deletion":     {at(event.Deleted, 11, 0, 0), at(event.Left, 10, 0, time.Hour), false, true},
		"the deletion behind what it had before":  {at(event.Modified, 10, 0, 0), at(event.Deleted, 11, 0, time.Hour), true, false},
		"back as it was when it left":             {at(event.Left, 11, 0, 0), at(event.Snapshot, 10, 0, time.Hour), true, false},
		"entered as it was when it left":          {at(event.Left, 11, 0, 0), at(event.Entered, 10, 0, time.Hour), true, false},
		"observed again, the name has another":    {other(event.Modified, 11, false), at(event.Modified, 10, 0, time.Hour), true, true},
		"another history, another object":         {other(event.Modified, 11, false), at(event.Modified, 10, 0, time.Hour), false, false},
		"another object, which a list lacked":     {other(event.Deleted, 11, true), at(event.Modified, 10, 0, time.Hour), true, false},
		"a deletion found behind another object":  {other(event.Modified, 9, false), at(event.Deleted, 12, 0, time.Hour), true, true},
		"another deletion found behind an object": {other(event.Modified, 9, false), at(event.Deleted, 12, 0, time.Hour), false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			last := readLast(7, form{"k8s", "binary"}.message(&tt.last).Header)
			if got := last.covers(&tt.sent, tt.taken); got != tt.want {
				t.Errorf("%s covers %s: %t, want %t", tt.last.ID, tt.sent.ID, got, tt.want)
			}
		})
	}
	e := at(event.Modified, 10, 0, 0)
	if none := (&lastMessage{}); none.covers(&e, true) {
		t.Error("no message covers an event")
	}
	if foreign := readLast(7, client.Header{"Ce-Id": {e.ID}, headerRevision: {"x"}, headerTime: {"y"}}); foreign.covers(&e, true) {
		t.Error("somebody else's message covers an event")
	}
}

func TestSubjectCoverage(t *testing.T) {
	tests := map[string]struct {
		pattern, wanted string
		want            bool
	}{
		"equal":          {"k8s.prod.>", "k8s.prod.>", true},
		"wider":          {"k8s.>", "k8s.prod.>", true},
		"everything":     {">", "k8s.prod.>", true},
		"star":           {"*.prod.>", "k8s.prod.>", true},
		"narrower":       {"k8s.prod.apps.>", "k8s.prod.>", false},
		"other cluster":  {"k8s.dev.>", "k8s.prod.>", false},
		"fixed length":   {"k8s.prod.*.*.*.*", "k8s.prod.>", false},
		"star for rest":  {"k8s.prod.*", "k8s.prod.>", false},
		"too short":      {"k8s.prod", "k8s.prod.>", false},
		"longer literal": {"k8s.prod.a.b", "k8s.prod.a", false},
		"star for star":  {"a.*.c", "a.*.c", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := covers(tt.pattern, tt.wanted); got != tt.want {
				t.Errorf("covers(%q, %q) = %t", tt.pattern, tt.wanted, got)
			}
		})
	}
}

// TestOwnStreamIsAccepted holds what the sink creates to what it demands.
func TestOwnStreamIsAccepted(t *testing.T) {
	c := &Config{SubjectPrefix: "a.b", Stream: "S", Create: Create{MaxBytes: 1 << 20, MaxAge: time.Hour, Replicas: 3}}
	if found := differences(c.streamConfig(), "a.b", "prod.eu"); len(found) != 0 {
		t.Errorf("differences %q", found)
	}
	if found := differences(jetstream.StreamConfig{Storage: jetstream.MemoryStorage, Sealed: true}, "a", "b"); len(found) != 3 {
		t.Errorf("differences %q, want three: subjects, storage, sealed", found)
	}
}

func TestCheckSize(t *testing.T) {
	e := event.Event{ID: "i", Op: event.Added, Cluster: "c", Resource: "r", Name: "n", Data: make([]byte, 1000)}
	if err := checkSize(form{"k8s", "binary"}.message(&e), 2000); err != nil {
		t.Error(err)
	}
	if err := checkSize(form{"k8s", "binary"}.message(&e), 1000); err == nil {
		t.Error("headers do not count")
	}
	long := e
	long.Name = string(make([]byte, 1400)) // three bytes each in the subject
	if err := checkSize(form{"k8s", "binary"}.message(&long), 1<<20); err == nil {
		t.Error("a subject that ends the connection passes")
	}
	long.Name, long.Kind = "n", string(make([]byte, 25000))
	if err := checkSize(form{"k8s", "binary"}.message(&long), 1<<20); err == nil {
		t.Error("headers that JetStream refuses pass")
	}
}

// TestFits: what is sent without a closer look would pass it.
func TestFits(t *testing.T) {
	full := event.Event{
		ID: "i", Op: event.Modified, Time: time.Unix(1, 0), Cluster: "c", Group: "g", Version: "v1", Resource: "r", Kind: "K",
		Namespace: "ns", Name: "n", UID: "u", ResourceVersion: 7, PrevResourceVersion: 6, Ordinal: 2, Data: []byte(`{"object":{}}`),
	}
	spaces, long, longer := full, full, full
	spaces.Kind = strings.Repeat(" ", 300)       // three bytes each in the header
	long.Name = strings.Repeat("\x00", 1400)     // and in the subject
	longer.Kind = strings.Repeat("\x00", 25_000) // more than JetStream takes
	for _, format := range []sink.Format{sink.FormatBinary, sink.FormatCloudEvents, sink.FormatRaw} {
		for _, e := range []event.Event{full, spaces, long, longer} {
			m := maker{form: form{"k8s", format}}
			size := int64(m.message(&e).Size())
			for limit := size - 200; limit < size+400; limit++ {
				if err := checkSize(&m.msg, limit); m.fits(limit) && err != nil {
					t.Fatalf("%s: %v, but it fits into %d", format, err, limit)
				}
			}
			if want := checkSize(&m.msg, size+400) == nil; m.fits(size+400) != want {
				t.Errorf("%s: fits is %t, with room", format, !want)
			}
		}
	}
}

// TestRepeatedIsNotCovered: what an operator has asked for again is sent, whatever
// the stream holds by now.
func TestRepeatedIsNotCovered(t *testing.T) {
	now := time.Now()
	last := lastMessage{sequence: 1, id: "u:9", revision: 9, time: now}
	for _, c := range []struct {
		id    string
		op    event.Op
		again bool
		want  bool
	}{
		{"u:5", event.Modified, false, true},
		{"u:9", event.Modified, false, true},
		{"u:5:r1", event.Modified, true, false},
		{"u:deleted:r12", event.Deleted, true, false},
		{"u:5:r1795170000000", event.Snapshot, false, true}, // of a snapshot that something newer followed
		{"core/pods:5:begin:r1", event.Begin, false, false}, // each snapshot has its own
		{"core/pods:5:synced:r1", event.Synced, false, false},
	} {
		e := event.Event{
			ID: c.id, Op: c.op, ResourceVersion: 5, Time: now.Add(-time.Second), Cluster: "c", Resource: "pods", Name: "x", UID: "u", Redelivered: c.again,
		}
		if got := last.covers(&e, false); got != c.want {
			t.Errorf("%s: covered %t, want %t", c.id, got, c.want)
		}
	}
}
