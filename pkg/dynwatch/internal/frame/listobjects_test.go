package frame_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// outcome is what came of one item.
type outcome struct {
	Object frame.Object
	Bad    *frame.Malformed
}

// someItems are objects of different sizes, some of them malformed.
func someItems(random *rand.Rand) []string {
	var items []string
	for i := range 60 {
		switch random.IntN(12) {
		case 0:
			items = append(items, fmt.Sprintf(`{"metadata":{"name":"n%d"}}`, i))
		case 1:
			items = append(items, `{"metadata":{"name":"x","uid":"u","resourceVersion":"1"},"a":tru}`)
		case 2:
			items = append(items, fmt.Sprintf("{\n \"metadata\" : { \"name\":\"n%d\", \"uid\":\"u%d\", \"resourceVersion\":\"7\" }\n}", i, i))
		default:
			items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"a","name":"n%d","uid":"u%d","resourceVersion":"%d"},"spec":{"x":["}]\"",%q]}}`,
				i, i, i+1, strings.Repeat("y", random.IntN(6000))))
		}
	}
	return items
}

func TestReadObjects(t *testing.T) {
	const maxItem = 20_000
	random := rand.New(rand.NewPCG(1, 2))
	body := `{"metadata":{"resourceVersion":"12"},"items":[` + strings.Join(someItems(random), ",") + `]}`
	n := frame.NewNormaliser("v1", "Thing", frame.Options{})
	var want []outcome
	wantMeta, err := frame.ReadList(strings.NewReader(body), maxItem, func(raw []byte) error {
		o, err := n.Normalise(raw)
		bad, _ := errors.AsType[*frame.Malformed](err)
		want = append(want, outcome{o, bad})
		return nil
	})
	must(t, err)
	for _, size := range []int{1, 100, 5000, 40_000, 1 << 20} {
		var got []outcome
		meta, err := n.ReadList(&pieces{strings.NewReader(body), random, size}, maxItem, nil, func(o *frame.Object, bad *frame.Malformed) error {
			if bad != nil {
				o = &frame.Object{}
			}
			got = append(got, outcome{*o, bad})
			return nil
		})
		if err != nil {
			t.Fatalf("pieces of up to %d: %v", size, err)
		}
		if diff := cmp.Diff(want, got); diff != "" || meta != wantMeta {
			t.Errorf("pieces of up to %d (-want +got): %v, %v\n%s", size, wantMeta, meta, diff)
		}
	}
}

// pieces reads a random number of bytes at a time.
type pieces struct {
	r      io.Reader
	random *rand.Rand
	most   int
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.r.Read(b[:min(len(b), 1+p.random.IntN(p.most))])
}

// An item does not wait for what follows it.
func TestReadObjectsAtOnce(t *testing.T) {
	const first, second = `{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"pad":"xxxxxxxxxxxx"}`, `{"metadata":{"name":"b","uid":"v","resourceVersion":"2"}}`
	r, w := io.Pipe()
	names := make(chan string, 2)
	done := make(chan error, 1)
	go func() {
		_, err := frame.NewNormaliser("v1", "Thing", frame.Options{}).ReadList(r, 1<<20, nil, func(o *frame.Object, _ *frame.Malformed) error {
			names <- o.Name
			return nil
		})
		done <- err
	}()
	for _, step := range []struct{ text, name string }{{`{"items":[` + first, "a"}, {"," + second, "b"}} {
		if _, err := w.Write([]byte(step.text)); err != nil {
			t.Fatal(err)
		}
		select {
		case name := <-names:
			if name != step.name {
				t.Errorf("item %q came, %q was written", name, step.name)
			}
		case err := <-done:
			t.Fatal(err)
		}
	}
	if _, err := w.Write([]byte("]}")); err != nil {
		t.Fatal(err)
	}
	must(t, errors.Join(w.Close(), <-done))
}

// What take returns ends the list, wherever the item was.
func TestReadObjectsStops(t *testing.T) {
	items := strings.Repeat(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}},`, 9)
	enough := errors.New("enough")
	for at := range 9 {
		seen := 0
		_, err := frame.NewNormaliser("v1", "Thing", frame.Options{}).ReadList(bytes.NewReader([]byte(`{"items":[`+items+`{}]}`)), 1<<20, nil, func(*frame.Object, *frame.Malformed) error {
			if seen++; seen > at {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || seen != at+1 {
			t.Errorf("after %d items: %v", seen, err)
		}
	}
}
