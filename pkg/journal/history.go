package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// Object names one object, or the objects of one name in several groups.
type Object struct {
	// Group is the API group; "core" is the core group, and "" is any group.
	Group string
	// Resource is the plural name, Namespace is empty for cluster-scoped objects.
	Resource, Namespace, Name string
}

const coreGroup = "core"

// String names the object as informd's commands do.
func (o Object) String() string {
	parts := []string{o.Resource, o.Namespace, o.Name}
	if o.Group != "" && o.Group != coreGroup {
		parts[0] += "." + o.Group
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "/")
}

// ErrAmbiguous says that the name is that of objects of several groups.
var ErrAmbiguous = errors.New("the name is that of objects in several groups")

// History reads what a journal keeps of one object, and the gaps. Its methods may be called concurrently.
type History struct{ log *wal.Log }

// History returns what reads the kept events of this journal.
func (j *Journal) History() History { return History{j.log} }

// of is an event of an object.
func (o Object) of(group string) *event.Event {
	if group == coreGroup {
		group = ""
	}
	return &event.Event{Op: event.Modified, Group: group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
}

// Find returns the object with its group. If of names no group and several groups have such an object, it
// is that of the core group, or the error is [ErrAmbiguous]. An object that the journal does not know is
// returned as it is.
func (h History) Find(ctx context.Context, of Object) (Object, error) {
	if of.Group != "" {
		return of, nil
	}
	var groups []string
	for _, target := range h.log.Keys.Targets() {
		name, _, _ := strings.Cut(target, "@")
		group, resource, _ := strings.Cut(name, "/")
		if resource != of.Resource || slices.Contains(groups, group) {
			continue
		}
		if h.log.Keys.Has(of.of(group)) {
			groups = append(groups, group)
		}
	}
	switch {
	case slices.Contains(groups, coreGroup):
		of.Group = coreGroup
	case len(groups) == 1:
		of.Group = groups[0]
	case len(groups) > 1:
		return of, fmt.Errorf("%s: %w: %s", of, ErrAmbiguous, strings.Join(groups, ", "))
	}
	return of, ctx.Err()
}

// Each calls take with the kept events of an object, oldest first, each with its Data, until take returns
// an error. There are none if the journal does not know the object. The last one is its present state;
// how many are kept before it is the journal's historyPerObject.
func (h History) Each(ctx context.Context, of Object, take func(event.Event) error) error {
	return h.log.History.Each(of.of(of.Group), func(e wal.Entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return take(e.Event)
	})
}

// ReadDir opens the journal in a directory to read it. It takes the lock, changes nothing else there,
// and fails while an informd uses it. The history is valid until closing was called.
func ReadDir(dir string) (_ History, closing func() error, _ error) {
	if found, err := filepath.Glob(filepath.Join(dir, "*.log")); err != nil || len(found) == 0 {
		return History{}, nil, fmt.Errorf("journal.dir %s has no journal", dir)
	}
	d, _, err := disk.Open(dir)
	if err != nil {
		return History{}, nil, err
	}
	s, err := readCopyState(d)
	if err == nil && s.Is == copyPartial {
		err = errors.New("it is a copy of the leader's log that was not completed: ask the leader")
	}
	var log *wal.Log
	if err == nil {
		log, err = wal.Read(d)
	}
	if err != nil {
		return History{}, nil, errors.Join(fmt.Errorf("read the journal in %s: %w", dir, err), d.Close())
	}
	return History{log}, d.Close, nil
}

// DeadLetters are the dead letters of one sink in a [Journal]. Methods may be called concurrently.
type DeadLetters struct {
	journal *Journal
	name    string
}

const (
	// smallLetter is more than a letter without the data of its event.
	smallLetter = 128 << 10
	// mostLarge and mostLetters bound the larger letters, and all; so does an eighth of the log.
	mostLarge   = 32 << 20
	mostLetters = 80 << 20
)

// DeadLetters returns the dead letters of a sink.
func (j *Journal) DeadLetters(sink string) *DeadLetters { return &DeadLetters{j, sink} }

// LetterCounts counts the dead letters of each sink that has any.
func (j *Journal) LetterCounts() map[string]uint64 { return j.log.Letters.Counts() }

// Put keeps a letter, and returns when it is durable. The error wraps [ErrTooLarge] if a letter
// without data may fit.
func (d *DeadLetters) Put(ctx context.Context, letter []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	limit := min(mostLetters, d.journal.config.MaxBytes/8)
	stored := d.journal.log.Letters.Bytes()
	switch {
	case len(letter) > smallLetter && stored+int64(len(letter)) > min(mostLarge, limit/2):
		d.journal.largeLetters.Do(func() {
			d.journal.config.Logger.Warn("dead letters near their limit; large ones stored without data", "sink", d.name, "bytes", stored, "max_bytes", limit,
				"next", "redeliver or drop some (informd deadletters)")
		})
		return fmt.Errorf("dead letters take %d of %d bytes: %w", stored, min(mostLarge, limit/2), ErrTooLarge)
	case stored+int64(len(letter)) > limit:
		return fmt.Errorf("dead letters take %d of %d bytes: they are full; redeliver or drop some (informd deadletters)", stored, limit)
	}
	return d.journal.log.Letters.Put(ctx, d.name, letter)
}

// Each calls take with every letter, oldest first, until take returns an error, which it returns.
func (d *DeadLetters) Each(ctx context.Context, take func(number uint64, letter []byte) error) error {
	return d.journal.log.Letters.Each(ctx, d.name, take)
}

// Drop removes dead letters, and ignores unknown numbers. It returns when that is durable.
func (d *DeadLetters) Drop(ctx context.Context, numbers ...uint64) error {
	return d.journal.log.Letters.Drop(ctx, d.name, numbers...)
}

// Place names the storage, for an operator.
func (d *DeadLetters) Place() string { return "journal.dir " + d.journal.config.Dir }
