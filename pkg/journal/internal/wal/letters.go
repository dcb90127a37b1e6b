package wal

import (
	"context"
	"math"
	"slices"

	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// box has the dead letters of one sink. The table has their places.
type box struct {
	numbers []uint32 // in order
	last    uint32   // the newest one that is known
	bytes   int64
}

func (l *Log) box(name string) *box {
	b := l.letters[name]
	if b == nil {
		b = &box{}
		l.letters[name] = b
	}
	return b
}

// applyLetter updates a box by a letter, or by the end of one, before the table has that.
func (l *Log) applyLetter(kind record.Kind, name string, number uint32, key record.Hash, size uint32) {
	b := l.box(name)
	b.last = max(b.last, number)
	i, found := slices.BinarySearch(b.numbers, number)
	switch {
	case kind == record.Letter && !found:
		b.numbers = slices.Insert(b.numbers, i, number)
		b.bytes += int64(size)
	case kind == record.LetterDropped && found:
		b.numbers = slices.Delete(b.numbers, i, i+1)
		b.bytes -= int64(l.table.get(key).Size)
	}
}

// newestLetter reports whether a record is the end of the newest letter of a sink: while it stays, no other letter has
// its number.
func (l *Log) newestLetter(e *segment.Entry) bool {
	if e.Kind == record.LetterDropped {
		for name, b := range l.letters {
			if b.last == e.Count && l.hasher.Letter(name, b.last) == e.Key {
				return true
			}
		}
	}
	return false
}

// PutLetter appends a dead letter, and returns when it is durable.
func (l *Log) PutLetter(ctx context.Context, name string, text []byte) error {
	l.mu.Lock()
	err := l.put(record.Letter, name, nil, text, l.box(name).last+1)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.Sync(ctx)
}

// LetterBytes is the size of the dead letters of all sinks.
func (l *Log) LetterBytes() (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.letters {
		bytes += b.bytes
	}
	return bytes
}

// Letters counts the dead letters of each sink that has any.
func (l *Log) Letters() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]uint64{}
	for name, b := range l.letters {
		if n := len(b.numbers); n > 0 {
			all[name] = uint64(n)
		}
	}
	return all
}

// EachLetter calls take with the dead letters of a sink, oldest first, until that returns an error,
// which it returns.
func (l *Log) EachLetter(ctx context.Context, name string, take func(number uint64, text []byte) error) error {
	for next := uint32(0); ctx.Err() == nil; {
		number, text, err := l.letterFrom(name, next)
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

// letterFrom returns the first letter from a number on; number is 0 without one.
func (l *Log) letterFrom(name string, from uint32) (number uint32, text []byte, err error) {
	l.mu.Lock()
	numbers := l.box(name).numbers
	i, _ := slices.BinarySearch(numbers, from)
	if l.err != nil || i == len(numbers) {
		defer l.mu.Unlock()
		return 0, nil, l.err
	}
	number = numbers[i]
	at := l.table.get(l.hasher.Letter(name, number))
	f := l.numbers[at.Segment]
	f.held++
	defer l.release(f)
	l.mu.Unlock()
	var s Source
	defer s.Close()
	rec, err := s.record(l, f, at.Offset, at.Size)
	return number, rec.Data, err
}

// DropLetters removes dead letters, and returns when that is durable. Unknown numbers are ignored.
func (l *Log) DropLetters(ctx context.Context, name string, list ...uint64) error {
	for _, number := range list {
		if err := l.dropLetter(name, number); err != nil {
			return err
		}
	}
	return l.Sync(ctx)
}

func (l *Log) dropLetter(name string, number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, found := slices.BinarySearch(l.box(name).numbers, uint32(number)); !found || number > math.MaxUint32 {
		return l.err
	}
	return l.put(record.LetterDropped, name, nil, nil, uint32(number))
}
