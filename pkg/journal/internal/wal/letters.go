package wal

import (
	"context"
	"math"
	"slices"

	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// boxes have the dead letters of each sink, by name. They are part of [Keys].
type boxes map[string]*box

// box has the dead letters of one sink. The table has their places.
type box struct {
	numbers []uint32 // in order
	last    uint32   // the newest one that is known
	bytes   int64
}

func (all boxes) of(name string) *box {
	b := all[name]
	if b == nil {
		b = &box{}
		all[name] = b
	}
	return b
}

func (b *box) add(number, size uint32) {
	b.last = max(b.last, number)
	if i, found := slices.BinarySearch(b.numbers, number); !found {
		b.numbers = slices.Insert(b.numbers, i, number)
		b.bytes += int64(size)
	}
}

func (b *box) drop(number, size uint32) {
	b.last = max(b.last, number)
	if i, found := slices.BinarySearch(b.numbers, number); found {
		b.numbers = slices.Delete(b.numbers, i, i+1)
		b.bytes -= int64(size)
	}
}

// newest reports whether a record is the end of the newest letter of a sink: while it stays, no other letter has
// its number.
func (all boxes) newest(e *segment.Entry, h record.Hasher) bool {
	if e.Kind == record.LetterDropped {
		for name, b := range all {
			if b.last == e.Count && h.Letter(name, b.last) == e.Key {
				return true
			}
		}
	}
	return false
}

// Letters appends and reads the dead letters of sinks.
type Letters struct {
	monitor  *Monitor
	segments *segments
	keys     *Keys
	writer   *Writer
	syncer   *Syncer
}

// Put appends a dead letter, and returns when it is durable.
func (l *Letters) Put(ctx context.Context, name string, text []byte) error {
	l.monitor.mu.Lock()
	err := l.writer.put(record.Letter, name, nil, text, l.keys.letters.of(name).last+1)
	l.monitor.mu.Unlock()
	if err != nil {
		return err
	}
	return l.syncer.Sync(ctx)
}

// Bytes is the size of the dead letters of all sinks.
func (l *Letters) Bytes() (bytes int64) {
	l.monitor.mu.Lock()
	defer l.monitor.mu.Unlock()
	for _, b := range l.keys.letters {
		bytes += b.bytes
	}
	return bytes
}

// Counts counts the dead letters of each sink that has any.
func (l *Letters) Counts() map[string]uint64 {
	l.monitor.mu.Lock()
	defer l.monitor.mu.Unlock()
	all := map[string]uint64{}
	for name, b := range l.keys.letters {
		if n := len(b.numbers); n > 0 {
			all[name] = uint64(n)
		}
	}
	return all
}

// Each calls take with the dead letters of a sink, oldest first, until that returns an error,
// which it returns.
func (l *Letters) Each(ctx context.Context, name string, take func(number uint64, text []byte) error) error {
	for next := uint32(0); ctx.Err() == nil; {
		number, text, err := l.from(name, next)
		if err != nil || number == 0 {
			return err
		}
		if err := take(uint64(number), text); err != nil {
			return err
		}
		next = number + 1
	}
	return ctx.Err()
}

// from takes the lock, and returns the first letter from a number on; number is 0 without one.
func (l *Letters) from(name string, from uint32) (number uint32, text []byte, err error) {
	l.monitor.mu.Lock()
	numbers := l.keys.letters.of(name).numbers
	i, _ := slices.BinarySearch(numbers, from)
	if l.monitor.err != nil || i == len(numbers) {
		defer l.monitor.mu.Unlock()
		return 0, nil, l.monitor.err
	}
	number = numbers[i]
	at := l.keys.table.get(l.keys.hasher.Letter(name, number))
	f := l.segments.numbers[at.Segment]
	f.held++
	defer l.segments.release(f)
	l.monitor.mu.Unlock()
	var s Source
	defer s.Close()
	rec, err := s.record(l.segments, f, at.Offset, at.Size)
	return number, rec.Data, err
}

// Drop removes dead letters, and returns when that is durable. Unknown numbers are ignored.
func (l *Letters) Drop(ctx context.Context, name string, list ...uint64) error {
	for _, number := range list {
		if err := l.drop(name, number); err != nil {
			return err
		}
	}
	return l.syncer.Sync(ctx)
}

// drop takes the lock.
func (l *Letters) drop(name string, number uint64) error {
	l.monitor.mu.Lock()
	defer l.monitor.mu.Unlock()
	numbers := l.keys.letters.of(name).numbers
	if _, found := slices.BinarySearch(numbers, uint32(number)); !found || number > math.MaxUint32 {
		return l.monitor.err
	}
	return l.writer.put(record.LetterDropped, name, nil, nil, uint32(number))
}
