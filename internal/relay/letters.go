package relay

import (
	"context"
	"sync"

	"github.com/informd/informd/pkg/journal/jetstream"
)

// Letters is a box of dead letters: [jetstream.Letters] of the present generation.
type Letters struct {
	journal *Journal
	name    string

	mu  sync.Mutex
	now *jetstream.Letters
	of  *generation
}

// Letters returns the box of that name.
func (j *Journal) Letters(name string) *Letters { return &Letters{journal: j, name: name} }

// LetterCounts returns the number of dead letters in each queue that is not empty.
func (j *Journal) LetterCounts(ctx context.Context) (map[string]uint64, error) {
	return j.current().journal.LetterCounts(ctx)
}

func (l *Letters) box(g *generation) *jetstream.Letters {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of != g {
		l.now, l.of = g.journal.Letters(l.name), g
	}
	return l.now
}

// Put keeps a letter and returns when it is durable.
func (l *Letters) Put(ctx context.Context, letter []byte) error {
	return l.journal.do(ctx, func(g *generation) error { return l.box(g).Put(ctx, letter) })
}

// Each calls take with every letter, oldest first. It is not repeated.
func (l *Letters) Each(ctx context.Context, take func(number uint64, letter []byte) error) error {
	return l.box(l.journal.current()).Each(ctx, take)
}

// Drop removes dead letters.
func (l *Letters) Drop(ctx context.Context, numbers ...uint64) error {
	return l.journal.do(ctx, func(g *generation) error { return l.box(g).Drop(ctx, numbers...) })
}

// Place names the storage of the dead letters, for an operator.
func (l *Letters) Place() string { return l.box(l.journal.current()).Place() }
