package segment_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

func header(s *rand.Rand) segment.Header {
	h := segment.Header{
		Name:     segment.Name{Number: 1 + s.Uint32()>>1, Generation: s.Uint32()},
		First:    1 + s.Uint64()>>2,
		Previous: int64(s.Uint64() >> 1),
	}
	h.Through = h.Number + s.Uint32N(100)
	for i := range h.ID {
		h.ID[i], h.Secret[i] = byte(s.Uint32()), byte(s.Uint32())
	}
	return h
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func TestName(t *testing.T) {
	for seed := range uint64(1000) {
		n := header(source(seed)).Name
		for _, file := range []string{n.Log(), n.Index()} {
			if got, ok := segment.ParseName(file); !ok || got != n {
				t.Errorf("%s: %v %v", file, got, ok)
			}
		}
	}
	for _, file := range []string{
		"", "lock", "00000001.00000000", "00000001.00000000.log.idx", "00000001.00000000.log.tmp", "0000001.00000000.log",
		"0000000A.00000000.log", "00000000.00000000.log", "+0000001.00000000.log", "00000001.00000000.log ", "00000001.00000000.log.log",
	} {
		if n, ok := segment.ParseName(file); ok {
			t.Errorf("%q is the name of %v", file, n)
		}
	}
}

func TestHeader(t *testing.T) {
	for seed := range uint64(1000) {
		want := header(source(seed))
		b := want.Append([]byte("before"))[len("before"):]
		got, err := segment.ParseHeader(b, want.Name)
		if err != nil || got != want || len(b) != segment.HeaderSize {
			t.Fatalf("seed %d: %d bytes, %v\n%+v, want\n%+v", seed, len(b), err, got, want)
		}
		b[source(seed).IntN(len(b))] ^= 1
		if _, err := segment.ParseHeader(b, want.Name); !errors.Is(err, segment.ErrInvalid) {
			t.Fatalf("seed %d: a flipped bit gives %v", seed, err)
		}
	}
}

// index makes the index of a random segment.
func index(seed uint64) (x *segment.Index, target func(i int) (string, bool), heads map[uint32]string) {
	s := source(seed)
	h := header(s)
	x = segment.NewIndex(h, nil)
	n := s.IntN(50)
	heads = map[uint32]string{}
	for i := range n {
		e := segment.Entry{
			Seq: h.First - 1 + uint64(i), Time: int64(i) * 1e5, Size: s.Uint32N(1000), Count: s.Uint32(),
			Kind: record.Kind(1 + s.IntN(10)), Flags: record.Flags(s.Uint32()),
		}
		binary.LittleEndian.PutUint64(e.Key[:], s.Uint64())
		heads[uint32(i)] = fmt.Sprint("head", i)
		x.Add(e, fmt.Sprint("ns", s.IntN(4)), []byte(heads[uint32(i)]))
	}
	for i := range n {
		if i%5 == 4 {
			delete(heads, uint32(i))
		}
	}
	return x, func(i int) (string, bool) {
		if i%3 == 0 {
			return "", i%5 != 4
		}
		return fmt.Sprint("target", i%3), i%5 != 4
	}, heads
}

func TestIndexRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		want, target, heads := index(seed)
		b := want.Append([]byte("before"), target)[len("before"):]
		got, err := segment.ParseIndex(b, want.Of)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(want.Entries)+len(got.Entries) > 0 && !reflect.DeepEqual(got.Entries, want.Entries) || got.Size != want.Size || !reflect.DeepEqual(got.Parts, want.Parts) {
			t.Fatalf("seed %d: differs after reading", seed)
		}
		for i := range got.Entries {
			if got.NamespaceOf(&got.Entries[i]) != want.NamespaceOf(&want.Entries[i]) {
				t.Fatalf("seed %d: namespace of %d", seed, i)
			}
		}
		for _, part := range got.Parts {
			all, err := part.Heads(b[part.Offset:][:part.Length])
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for _, h := range all {
				e := want.Entries[h.Entry]
				of, _ := target(int(h.Entry))
				if string(h.Head) != heads[h.Entry] || h.Seq != e.Seq || h.Time != e.Time || of != part.Target {
					t.Fatalf("seed %d: head %d is %+v in %+v", seed, h.Entry, h, part)
				}
				delete(heads, h.Entry)
			}
		}
		if len(heads) > 0 {
			t.Fatalf("seed %d: lacks %v", seed, heads)
		}
		other := want.Of
		other.Generation++
		if _, err := segment.ParseIndex(b, other); !errors.Is(err, segment.ErrInvalid) {
			t.Fatalf("seed %d: for another segment: %v", seed, err)
		}
	}
}

func TestIndexDamaged(t *testing.T) {
	x, target, _ := index(3)
	b := x.Append(nil, target)
	for i := range b {
		if _, err := segment.ParseIndex(b[:i:i], x.Of); !errors.Is(err, segment.ErrInvalid) {
			t.Errorf("cut at %d: %v", i, err)
		}
		flipped := bytes.Clone(b)
		flipped[i] ^= 1 << (i % 8)
		if _, err := segment.ParseIndex(flipped, x.Of); !errors.Is(err, segment.ErrInvalid) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

func TestIndexHasManyNamespaces(t *testing.T) {
	x := segment.NewIndex(segment.Header{Name: segment.Name{Number: 1}, First: 1, Through: 1}, nil)
	for i := range 1<<16 + 10 {
		x.Add(segment.Entry{Seq: 1, Size: 1}, fmt.Sprint(i), nil)
	}
	got, err := segment.ParseIndex(x.Append(nil, func(int) (string, bool) { return "", false }), x.Of)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got.Entries {
		if name := got.NamespaceOf(&got.Entries[i]); name != fmt.Sprint(i) {
			t.Fatalf("namespace %d is %q", i, name)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	h := header(source(1))
	f.Add(h.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		seal(b, segment.HeaderSize)
		got, err := segment.ParseHeader(b, h.Name)
		if err == nil && !bytes.Equal(got.Append(nil), b[:segment.HeaderSize]) || err != nil && !errors.Is(err, segment.ErrInvalid) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Allocations are bounded by the size of the file: a test with 100 MB for a few bytes is killed.
func FuzzParseIndex(f *testing.F) {
	for seed := range uint64(5) {
		x, target, _ := index(seed)
		f.Add(seed, x.Append(nil, target))
	}
	f.Fuzz(func(t *testing.T, seed uint64, b []byte) {
		x, _, _ := index(seed % 5)
		seal(b, len(b))
		got, err := segment.ParseIndex(b, x.Of)
		if err != nil {
			if !errors.Is(err, segment.ErrInvalid) {
				t.Error(err)
			}
			return
		}
		for i := range got.Entries {
			got.NamespaceOf(&got.Entries[i])
		}
		for _, part := range got.Parts {
			all, err := part.Heads(b[part.Offset:][:part.Length])
			if err != nil && !errors.Is(err, segment.ErrInvalid) {
				t.Error(err)
			}
			for _, h := range all {
				if len(h.Head) > int(part.Length) {
					t.Error("a head is larger than its part")
				}
			}
		}
	})
}

// seal makes the checksum right, which fuzzing would not find.
func seal(b []byte, size int) {
	if size >= 4 && len(b) >= size {
		binary.LittleEndian.PutUint32(b[size-4:], crc32.Checksum(b[:size-4], crc32.MakeTable(crc32.Castagnoli)))
	}
}

func TestScanner(t *testing.T) {
	for seed := range uint64(20) {
		s := source(seed)
		var file []byte
		var ends []int
		for range 10 + s.IntN(30) {
			var err error
			data := make([]byte, s.IntN(200<<10))
			if file, err = record.Append(file, &record.Record{Kind: record.Event, Seq: uint64(len(ends)), Data: data}); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, len(file))
		}
		cut := s.IntN(len(file) + 1)
		scanner := segment.NewScanner(bytes.NewReader(file[:cut]), 0, int64(len(file)))
		if seed%2 == 0 {
			scanner = segment.NewScanner(bytes.NewReader(file), 0, int64(cut))
		}
		n := 0
		for ; ; n++ {
			r, at, err := scanner.Next()
			if err == nil {
				if r.Seq != uint64(n) || at+int64(r.Size()) != int64(ends[n]) {
					t.Fatalf("seed %d: record %d at %d is %d", seed, n, at, r.Seq)
				}
				continue
			}
			whole := n > 0 && ends[n-1] == cut || cut == 0
			if whole == errors.Is(err, record.ErrShort) {
				t.Fatalf("seed %d: after %d records of %d bytes: %v", seed, n, cut, err)
			}
			break
		}
		if n < len(ends) && ends[n] <= cut {
			t.Fatalf("seed %d: ends after %d records", seed, n)
		}
	}
}

// TestSum: a follower keeps a segment if the sum of its index is that of the leader's. So what a segment covers, and
// each property of a record, changes it.
func TestSum(t *testing.T) {
	sum := func(change func(h *segment.Header, e *segment.Entry)) uint32 {
		h := header(source(1))
		e := segment.Entry{Key: [16]byte{1}, Seq: h.First + 1, Time: 5e6, Size: 100, Count: 1, Kind: record.Event}
		change(&h, &e)
		x := segment.NewIndex(h, nil)
		x.Add(e, "a", nil)
		b := x.Append(nil, func(int) (string, bool) { return "", false })
		read, err := segment.ParseIndex(b, h)
		if err != nil || read.Sum != x.Sum || binary.LittleEndian.Uint32(b[len(b)-4:]) != x.Sum {
			t.Fatalf("sum %08x, read %+v, %v", x.Sum, read, err)
		}
		return x.Sum
	}
	seen := map[uint32]string{sum(func(*segment.Header, *segment.Entry) {}): "nothing"}
	for what, change := range map[string]func(h *segment.Header, e *segment.Entry){
		"through": func(h *segment.Header, _ *segment.Entry) { h.Through++ }, "id": func(h *segment.Header, _ *segment.Entry) { h.ID[0]++ },
		"key": func(_ *segment.Header, e *segment.Entry) { e.Key[0]++ }, "seq": func(_ *segment.Header, e *segment.Entry) { e.Seq++ },
		"time": func(_ *segment.Header, e *segment.Entry) { e.Time++ }, "size": func(_ *segment.Header, e *segment.Entry) { e.Size++ },
		"flags": func(_ *segment.Header, e *segment.Entry) { e.Flags |= record.DataRemoved },
	} {
		s := sum(change)
		if other, known := seen[s]; known {
			t.Errorf("the sum is the same after a change of %s and of %s", what, other)
		}
		seen[s] = what
	}
}

// TestFormat: a log that an earlier build has written stays readable. A change of these bytes, or of the
// meaning of what follows them, needs another magic.
func TestFormat(t *testing.T) {
	h := segment.Header{
		Name: segment.Name{Number: 7, Generation: 6}, ID: [16]byte{1}, Secret: [16]byte{2}, First: 5, Previous: 3, Through: 8,
	}
	const want = "494e464c4f470003010000000000000000000000000000000200000000000000000000000000000005000000000000000300000000000000" +
		"070000000600000008000000080884d7"
	if got := hex.EncodeToString(h.Append(nil)); got != want {
		t.Errorf("header\n%s, want\n%s", got, want)
	}
}
