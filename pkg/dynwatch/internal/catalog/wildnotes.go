package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// Note is what the log keeps of a wildcard, in the place of a target's checkpoint.
type Note struct {
	// First are the resources that existed at the first expansion, watched or not; in
	// groups that are Unknown nothing could be found out yet.
	First   []string `json:"first"`
	Unknown []string `json:"unknown,omitempty"`
	// Running are the resources that have targets. If one is gone when informd returns, it
	// has deletions to announce.
	Running []string `json:"running"`
}

// looked brings a note up to date with the catalog, and begins one that is nil.
func (n *Note) looked(p Pattern, c *Catalog) *Note {
	stale := c.Stale()
	next := &Note{}
	if n == nil {
		next.First = p.names(c, anyGroup)
		next.Unknown = slices.DeleteFunc(slices.Clone(stale), func(group string) bool { return !Glob(p.Group, group) })
		return next
	}
	next.First = slices.Clone(n.First)
	for _, group := range n.Unknown {
		if slices.Contains(stale, group) {
			next.Unknown = append(next.Unknown, group)
			continue
		}
		next.First = append(next.First, p.names(c, func(name string) bool { return name == group })...)
	}
	slices.Sort(next.First)
	next.First = slices.Compact(next.First)
	return next
}

// existed reports whether a resource was there at the first expansion.
func (n *Note) existed(one schema.GroupResource) bool {
	_, first := slices.BinarySearch(n.First, NameOf(one))
	return first || slices.Contains(n.Unknown, one.Group)
}

// Log stores the notes under the ids of their wildcards.
type Log interface {
	Restore(ctx context.Context, id string, last func(event.Event)) (journal.Checkpoint, error)
	Mark(ctx context.Context, id string, note []byte) error
}

// Notes are those of the log. They belong to one goroutine.
type Notes struct {
	log    Log
	logger *slog.Logger
	known  map[string]*Note // by id
}

// NewNotes makes Notes that have read nothing.
func NewNotes(log Log, logger *slog.Logger) *Notes {
	return &Notes{log: log, logger: logger, known: make(map[string]*Note)}
}

// Forget forgets the notes of wildcards that are not in the set.
func (n *Notes) Forget(s *Set) {
	maps.DeleteFunc(n.known, func(id string, _ *Note) bool { return !s.Has(id) })
}

// Load returns the notes of the set's wildcards, nil for a first expansion. It reads those
// that it does not know.
func (n *Notes) Load(ctx context.Context, s *Set) (map[string]*Note, error) {
	for _, p := range s.Patterns {
		id := p.ID()
		if _, known := n.known[id]; known {
			continue
		}
		kept, err := n.log.Restore(ctx, id, func(event.Event) {})
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		var note *Note
		if len(kept.Mark) > 0 { // void or not: it counts on no events
			if err := json.Unmarshal(kept.Mark, &note); err != nil {
				n.logger.Error("wildcard checkpoint unreadable; expanding it as new", "target", id, "err", err)
				note = nil
			}
		}
		n.known[id] = note
	}
	return n.known, nil
}

// Save stores the notes that have changed.
func (n *Notes) Save(ctx context.Context, notes map[string]*Note) error {
	for id, note := range notes {
		if reflect.DeepEqual(note, n.known[id]) {
			continue
		}
		text, err := json.Marshal(note)
		if err != nil {
			return fmt.Errorf("encode checkpoint of %s: %w", id, err)
		}
		if err := n.log.Mark(ctx, id, text); err != nil {
			return fmt.Errorf("save checkpoint of %s: %w", id, err)
		}
		n.known[id] = note
	}
	return nil
}
