//go:build long

package daemon

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/pkg/event"
)

// largeBox makes each dead letter when it is read, and notes the most memory that was in use
// then.
type largeBox struct {
	count, size uint64

	mu      sync.Mutex
	most    uint64
	dropped map[uint64]bool
}

func (b *largeBox) Place() string { return "nowhere" }

func (b *largeBox) Put(context.Context, []byte) error { return nil }

func (b *largeBox) Each(ctx context.Context, take func(uint64, []byte) error) error {
	for number := uint64(1); number <= b.count; number++ {
		b.mu.Lock()
		dropped := b.dropped[number]
		b.mu.Unlock()
		if dropped {
			continue
		}
		if err := take(number, letterOf(number, int(b.size))); err != nil {
			return err
		}
		b.mu.Lock()
		b.most = max(b.most, heap())
		b.mu.Unlock()
	}
	return ctx.Err()
}

func (b *largeBox) Drop(_ context.Context, numbers ...uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, number := range numbers {
		b.dropped[number] = true
	}
	return nil
}

// heap is how much memory is in use, without garbage.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestDeadLettersAreReadOneByOne: what an operator does to 64 large dead letters takes the memory of
// a few of them.
func TestDeadLettersAreReadOneByOne(t *testing.T) {
	const size = 256 << 10
	for name, do := range map[string]func(operator) (int, error){
		"list": func(o operator) (n int, err error) {
			return n, o.EachLetter(t.Context(), "out", func(admin.Letter) error { n++; return nil })
		},
		"redeliver": func(o operator) (int, error) {
			count, err := o.RedeliverLetters(t.Context(), "out", nil)
			return count.Events, err
		},
		"drop": func(o operator) (int, error) {
			count, err := o.DropLetters(t.Context(), "out", nil)
			return count.Events, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			box := &largeBox{count: 64, size: size, dropped: map[uint64]bool{}}
			o := operatorOf(t, box, func(_ context.Context, batch []event.Event) (int, error) { return len(batch), nil })
			before := heap()
			if n, err := do(o); n != int(box.count) || err != nil {
				t.Fatalf("%d dead letters, %v", n, err)
			}
			if took := int64(box.most) - int64(before); took > 16*size {
				t.Errorf("%d times the size of a dead letter is in use", took/size)
			}
			want := int(box.count)
			if name == "list" {
				want = 0
			}
			if len(box.dropped) != want {
				t.Errorf("%d dead letters are dropped, want %d", len(box.dropped), want)
			}
		})
	}
}
