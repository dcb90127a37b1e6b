package record_test

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
)

// fullEvent has a value in each field.
func fullEvent() event.Event {
	return event.Event{
		ID: "an id of its own", Op: event.Modified, Time: time.UnixMicro(1_700_000_000_000_001).UTC(), Cluster: "c", Target: "t", Group: "g", Version: "v",
		Resource: "r", Kind: "k", Namespace: "ns", Name: "n", UID: "0b5c1a6e-0000-4000-8000-00000000000f", ResourceVersion: 9, PrevResourceVersion: 8,
		Ordinal: 7, Epoch: 6, Run: 5, Replay: true, Data: []byte(`{"object":{}}`), Unchanged: []uint64{4},
		Gap: &event.GapInfo{From: 1, To: 2, Reason: "expired", Recovered: event.RecoveredState, Trimmed: 3},
	}
}

// TestEveryFieldIsStored: a field that the log does not store reaches no sink.
func TestEveryFieldIsStored(t *testing.T) {
	want := fullEvent()
	for _, field := range reflect.ValueOf(&want).Elem().Fields() {
		switch {
		case field.Kind() == reflect.String && field.IsZero():
			field.SetString("newer than fullEvent")
		case field.Kind() == reflect.Uint64 && field.IsZero():
			field.SetUint(1)
		}
	}
	b, err := record.Append(nil, &record.Record{Kind: record.Event, Seq: 1, Head: record.AppendEvent(nil, &want, 1), Data: want.Data})
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := record.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := record.ParseEvent(&r, new(record.Strings))
	if err != nil {
		t.Fatal(err)
	}
	value := reflect.ValueOf(got)
	for _, field := range reflect.VisibleFields(value.Type()) {
		if field.Name != "Redelivered" && value.FieldByIndex(field.Index).IsZero() { // that is of one delivery
			t.Errorf("the field %s of an event is not in fullEvent, or not stored", field.Name)
		}
	}
}

// TestFormat: a log that an earlier build has written stays readable. A change of these bytes needs another
// magic of segments, so that an older log is refused and not misread.
func TestFormat(t *testing.T) {
	e := fullEvent()
	object := event.Event{
		Target: "t", Group: "g", Resource: "r", Namespace: "ns", Name: "n", UID: e.UID, ResourceVersion: 9, Time: time.UnixMicro(1_700_000_000_000_000),
	}
	for name, test := range map[string]struct {
		record record.Record
		want   string
	}{
		"event": {
			record.Record{
				Kind: record.Event, Flags: record.Hard, Seq: 7, Time: 1_700_000_000_000_000, Count: 3,
				Head: record.AppendEvent(nil, &e, 1_700_000_000_000_000), Data: e.Data,
			},
			"4a1863daef00000001010000070000000000000000401e18240a060003000000c60000000101630201740301670401760501" +
				"7206016b07026e7308016e092430623563316136652d303030302d343030302d383030302d3030303030303030303030660a" +
				"10616e206964206f6620697473206f776e0b086d6f6469666965640c088180f9c0c1c4820314010915010816010717010618" +
				"01050d000e447b2246726f6d223a312c22546f223a322c22526561736f6e223a2265787069726564222c225265636f766572" +
				"6564223a227374617465222c225472696d6d6564223a337d0f0804000000000000007b226f626a656374223a7b7d7d",
		},
		"forgotten": {
			record.Record{
				Kind: record.Forgotten, Flags: record.Ends, Seq: 7, Time: 1_700_000_000_000_000, Count: 4,
				Head: record.AppendEvent(nil, &object, 1_700_000_000_000_000),
			},
			"bb2290f05500000006020000070000000000000000401e18240a0600040000003900000002017403016705017207026e7308" +
				"016e092430623563316136652d303030302d343030302d383030302d303030303030303030303066140109",
		},
		"named": {
			record.Record{Kind: record.Cursor, Seq: 7, Time: 1_700_000_000_000_000, Count: 1, Head: record.AppendNamed(nil, "sink/bus", []byte(`{"seq":6}`))},
			"064002f03100000003000000070000000000000000401e18240a06000100000015000000010873696e6b2f62757302097b22736571223a367d",
		},
	} {
		b, err := record.Append(nil, &test.record)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(b); got != test.want {
			t.Errorf("%s is\n%s, want\n%s", name, got, test.want)
		}
	}
}

func TestHashesDiffer(t *testing.T) {
	h, other := record.Hasher{1}, record.Hasher{2}
	base := event.Event{Op: event.Added, Group: "g", Resource: "r", Namespace: "n", Name: "x", Target: "t", UID: "u"}
	same := base
	same.UID, same.Op, same.Target, same.Version = "v", event.Deleted, "u", "v2"
	if h.Event(&base) != h.Event(&same) {
		t.Error("the key of an object depends on more than its name")
	}
	if h.Event(&base) == other.Event(&base) {
		t.Error("the key does not depend on the secret")
	}
	seen := map[record.Hash]string{h.Event(&base): "base"}
	add := func(name string, k record.Hash) {
		t.Helper()
		if of, known := seen[k]; known {
			t.Errorf("%s and %s have one key", of, name)
		}
		seen[k] = name
	}
	for name, e := range map[string]event.Event{
		"moved":   {Op: event.Added, Group: "gr", Namespace: "n", Name: "x"},
		"longer":  {Op: event.Added, Group: "g", Resource: "r", Namespace: "nx"},
		"gap":     {Op: event.Gap, Target: "t"},
		"begin":   {Op: event.Begin, Target: "t"},
		"gap t u": {Op: event.Gap, Target: "tu"},
	} {
		add(name, h.Event(&e))
	}
	add("mark", h.Record(2, "t"))
	add("cursor", h.Record(3, "t"))
}
