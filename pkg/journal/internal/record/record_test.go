package record_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
)

// source makes random values. Failures print its seed.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 0))} }

func (s source) bytes(most int) []byte {
	b := make([]byte, s.IntN(most+1))
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return b
}

func (s source) text() string {
	if s.IntN(4) == 0 {
		return ""
	}
	return string(s.bytes(40))
}

func (s source) number() uint64 {
	if s.IntN(3) == 0 {
		return 0
	}
	return s.Uint64() >> s.IntN(64)
}

func (s source) event() event.Event {
	e := event.Event{
		ID: s.text(), Op: event.Ops()[s.IntN(len(event.Ops()))], Time: time.UnixMicro(int64(s.number() >> 8)).UTC(),
		Replay: s.IntN(2) == 0,
	}
	for _, field := range reflect.ValueOf(&e).Elem().Fields() {
		switch {
		case field.Kind() == reflect.String && field.IsZero():
			field.SetString(s.text())
		case field.Kind() == reflect.Uint64:
			field.SetUint(s.number())
		}
	}
	if data := s.bytes(300); len(data) > 0 {
		e.Data = data
	}
	if s.IntN(4) == 0 {
		e.Gap = &event.GapInfo{From: s.number(), To: s.number(), Reason: "expired", Recovered: event.RecoveredState, Trimmed: s.number()}
	}
	if s.IntN(4) == 0 {
		e.Unchanged = []uint64{s.Uint64(), s.Uint64()}[:s.IntN(3)]
	}
	return e
}

func TestEventRoundTrip(t *testing.T) {
	for seed := range uint64(5000) {
		s := newSource(seed)
		want, at := s.event(), int64(s.number()>>8)
		b, err := record.Append([]byte("before"), &record.Record{
			Kind: record.Event, Flags: record.Hard, Seq: 7, Time: at, Count: 3, Head: record.AppendEvent(nil, &want, at), Data: want.Data,
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		b = append(b[len("before"):], "what follows"...)
		r, size, err := record.Parse(b)
		if err != nil || size != len(b)-len("what follows") || size != r.Size() {
			t.Fatalf("seed %d: %d of %d bytes, %v", seed, size, len(b), err)
		}
		if r.Kind != record.Event || r.Flags != record.Hard || r.Seq != 7 || r.Time != at || r.Count != 3 {
			t.Fatalf("seed %d: %+v", seed, r)
		}
		got, err := record.ParseEvent(&r, new(record.Strings))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %v\n%+v, want\n%+v", seed, err, got, want)
		}
	}
}

func TestNamedRoundTrip(t *testing.T) {
	for seed := range uint64(1000) {
		s := newSource(seed)
		name, value := s.text(), s.bytes(200)
		gotName, gotValue, err := record.ParseNamed(record.AppendNamed(nil, name, value))
		if err != nil || gotName != name || !bytes.Equal(gotValue, value) {
			t.Fatalf("seed %d: %q %q, %v", seed, gotName, gotValue, err)
		}
	}
}

func small(t testing.TB) []byte {
	t.Helper()
	s := newSource(1)
	e := s.event()
	b, err := record.Append(nil, &record.Record{
		Kind: record.Event, Seq: 1 << 40, Time: 1, Count: 1, Head: record.AppendEvent(nil, &e, 1), Data: e.Data,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTruncated(t *testing.T) {
	b := small(t)
	for n := range b {
		if _, _, err := record.Parse(b[:n:n]); !errors.Is(err, record.ErrShort) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

func TestFlippedBits(t *testing.T) {
	b := small(t)
	for bit := range 8 * len(b) {
		flipped := bytes.Clone(b)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, _, err := record.Parse(flipped); !errors.Is(err, record.ErrInvalid) && !errors.Is(err, record.ErrShort) {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	data := make([]byte, record.MaxBody)
	if got, err := record.Append([]byte("before"), &record.Record{Kind: record.Event, Data: data}); err == nil || string(got) != "before" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	data = data[:record.MaxBody-record.HeaderSize+8]
	b, err := record.Append(nil, &record.Record{Kind: record.Event, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	if r, size, err := record.Parse(b); err != nil || size != len(b) || len(r.Data) != len(data) {
		t.Errorf("%d bytes of %d, %v", size, len(b), err)
	}
}

// Many texts must not stay in memory for ever.
func TestStringsAreBounded(t *testing.T) {
	shared := new(record.Strings)
	for i := range 20000 {
		e := event.Event{ID: "i", Op: event.Gap, Namespace: string(rune('a' + i))}
		r := record.Record{Kind: record.Event, Head: record.AppendEvent(nil, &e, 0)}
		got, err := record.ParseEvent(&r, shared)
		if err != nil || got.Namespace != e.Namespace {
			t.Fatalf("%q, %v", got.Namespace, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small(f))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, size, err := record.Parse(b)
		if err != nil {
			if !errors.Is(err, record.ErrInvalid) && !errors.Is(err, record.ErrShort) {
				t.Error(err)
			}
			return
		}
		again, err := record.Append(nil, &r)
		if err != nil || size > len(b) || len(again) != size || !bytes.Equal(again[12:], b[12:size]) {
			t.Errorf("%d bytes of %d, %v", size, len(b), err)
		}
	})
}

func FuzzParseEvent(f *testing.F) {
	for seed := range uint64(20) {
		s := newSource(seed)
		e := s.event()
		f.Add(record.AppendEvent(nil, &e, 5))
		e.ID, e.Op = "", "" // of a forgotten object
		f.Add(record.AppendEvent(nil, &e, 5))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		e, err := record.ParseEvent(&record.Record{Time: 5, Head: head}, new(record.Strings))
		if err != nil {
			if !errors.Is(err, record.ErrInvalid) {
				t.Error(err)
			}
			return
		}
		again, err := record.ParseEvent(&record.Record{Time: 5, Head: record.AppendEvent(nil, &e, 5)}, new(record.Strings))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%v\n%+v, want\n%+v", err, again, e)
		}
	})
}

func FuzzParseNamed(f *testing.F) {
	f.Add(record.AppendNamed(nil, "name", []byte("value")))
	f.Fuzz(func(t *testing.T, head []byte) {
		name, value, err := record.ParseNamed(head)
		if err != nil {
			if !errors.Is(err, record.ErrInvalid) {
				t.Error(err)
			}
			return
		}
		againName, againValue, err := record.ParseNamed(record.AppendNamed(nil, name, value))
		if err != nil || againName != name || !bytes.Equal(againValue, value) {
			t.Errorf("%q %q, want %q %q, %v", againName, againValue, name, value, err)
		}
	})
}
