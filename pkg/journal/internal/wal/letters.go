package wal

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/informd/informd/pkg/journal/internal/keys"
	"github.com/informd/informd/pkg/journal/internal/record"
)

// box has the places of the dead letters of one sink, oldest first.
type box struct {
	name    string
	letters []letter
	last    uint32 // number of the newest letter that was ever in it
	dropped dropped
}

type letter struct {
	number, segment, offset, size uint32
}

// dropped are numbers of dead letters: ranges in order, both ends included. One record has all of
// a box, so that only the newest must be kept.
type dropped []numbers

type numbers struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

func (d dropped) has(number uint32) bool {
	return slices.ContainsFunc(d, func(r numbers) bool { return r.From <= number && number <= r.To })
}

// gone joins the numbers that no letter of the box has any more to ranges.
func (b *box) gone() dropped {
	var all dropped
	next := uint32(1)
	for _, l := range b.letters {
		if l.number > next {
			all = append(all, numbers{next, l.number - 1})
		}
		next = l.number + 1
	}
	if next <= b.last {
		all = append(all, numbers{next, b.last})
	}
	return all
}

func (l *Log) box(name string) *box {
	key := l.hasher.Record(byte(record.Letter), name)
	if l.letters[key] == nil {
		l.letters[key] = &box{name: name}
	}
	return l.letters[key]
}

// search returns the place of the first letter from a number on.
func (b *box) search(number uint32) (i int, found bool) {
	return slices.BinarySearchFunc(b.letters, number, func(one letter, n uint32) int { return cmp.Compare(one.number, n) })
}

// letterAt returns the letter that a record of a segment is, nil if that was dropped.
func (l *Log) letterAt(key keys.Hash, number uint32, at place) *letter {
	b := l.letters[key]
	if b == nil {
		return nil
	}
	if i, found := b.search(number); found && (place{b.letters[i].segment, int64(b.letters[i].offset)}) == at {
		return &b.letters[i]
	}
	return nil
}

// addLetter adds a letter that is in a segment, unless it was dropped: compaction may have left its
// bytes.
func (l *Log) addLetter(name string, add letter) {
	b := l.box(name)
	b.last = max(b.last, add.number)
	if _, found := b.search(add.number); found || b.dropped.has(add.number) {
		return
	}
	b.letters = append(b.letters, add)
}

// dropLetters removes the letters that a record names.
func (l *Log) dropLetters(n *Named) {
	b := l.box(n.Name)
	var all dropped
	if json.Unmarshal(n.Value, &all) != nil {
		return // the record has a checksum, and is written below
	}
	b.dropped = all
	if len(all) > 0 {
		b.last = max(b.last, all[len(all)-1].To)
	}
	b.letters = slices.DeleteFunc(b.letters, func(one letter) bool { return all.has(one.number) })
}

// PutLetter appends a dead letter, and returns when it is durable.
func (l *Log) PutLetter(ctx context.Context, name string, text []byte) error {
	if err := l.putLetter(name, text); err != nil {
		return err
	}
	return l.Sync(ctx)
}

func (l *Log) putLetter(name string, text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.put(record.Letter, name, nil, text, l.box(name).last+1)
}

// LetterBytes is the size of the dead letters of all sinks.
func (l *Log) LetterBytes() (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.letters {
		for i := range b.letters {
			bytes += int64(b.letters[i].size)
		}
	}
	return bytes
}

// Letters counts the dead letters of each sink that has any.
func (l *Log) Letters() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]uint64{}
	for _, b := range l.letters {
		if n := len(b.letters); n > 0 {
			all[b.name] = uint64(n)
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
	b := l.letters[l.hasher.Record(byte(record.Letter), name)]
	i := 0
	if b != nil {
		i, _ = b.search(from)
	}
	if l.err != nil || b == nil || i == len(b.letters) {
		defer l.mu.Unlock()
		return 0, nil, l.err
	}
	at := b.letters[i]
	f := l.numbers[at.segment]
	f.held++
	defer l.release(f)
	l.mu.Unlock()
	rec, err := l.readRecord(f, at.offset, at.size)
	return at.number, rec.Data, err
}

// DropLetters removes dead letters, and returns when that is durable. Unknown numbers are ignored.
func (l *Log) DropLetters(ctx context.Context, name string, list ...uint64) error {
	if err := l.drop(name, list); err != nil {
		return err
	}
	return l.Sync(ctx)
}

func (l *Log) drop(name string, list []uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	b := l.box(name)
	left := box{last: b.last, letters: slices.DeleteFunc(slices.Clone(b.letters), func(one letter) bool {
		return slices.Contains(list, uint64(one.number))
	})}
	if len(left.letters) == len(b.letters) {
		return nil
	}
	value, err := json.Marshal(left.gone())
	if err != nil {
		return err
	}
	return l.put(record.LettersDropped, name, value, nil, 1)
}
