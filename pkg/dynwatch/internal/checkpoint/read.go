package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// Ended is when the last object of a name ended, and its UID if it was deleted.
type Ended struct {
	RV, Epoch uint64
	Deleted   string
}

// After reports whether the object ended after a mark. Before a rollback revisions meant
// something else.
func (e Ended) After(m *Mark) bool { return e.RV > m.RV && e.Epoch == m.Epoch }

// Ends are the objects that ended, by key.
type Ends map[string]Ended

// Since counts the objects that ended after the mark, also in later epochs.
func (ends Ends) Since(m *Mark) (n int) {
	for _, e := range ends {
		if e.RV > m.RV || e.Epoch > m.Epoch {
			n++
		}
	}
	return n
}

// Newest is the newest revision of an epoch.
func (ends Ends) Newest(epoch uint64) (newest uint64) {
	for _, e := range ends {
		if e.Epoch == epoch {
			newest = max(newest, e.RV)
		}
	}
	return newest
}

// Left are the keys of the objects that left the selection.
func (ends Ends) Left() map[string]struct{} {
	left := make(map[string]struct{})
	for name, e := range ends {
		if e.Deleted == "" {
			left[name] = struct{}{}
		}
	}
	return left
}

func endedBy(e *event.Event) Ended {
	end := Ended{RV: e.ResourceVersion, Epoch: e.Epoch}
	if e.Op == event.Deleted {
		end.Deleted = e.UID
	}
	return end
}

// Restored is what the log has of a target.
type Restored struct {
	// Mark is the last one. Marked: there is one, and it is not void. Text is that of one
	// that cannot be read.
	Mark   Mark
	Marked bool
	Text   string
	// Lost: the log has lost events since. The mark is void then, but for its epoch and
	// revision. Others: the log has objects of other targets.
	Lost, Others bool
	Ends         Ends
	// Epoch is the newest of an event. If the log has lost events, that of the mark can be
	// newer.
	Epoch uint64
	// Resource and Kind are those of the newest event.
	Resource schema.GroupVersionResource
	Kind     string
}

// Read makes the index what the log says was announced, and returns the rest of it. Unreadable
// says why the mark is not what it should be.
func Read(ctx context.Context, target string, x *index.Index, restore func(context.Context, string, func(event.Event)) (journal.Checkpoint, error)) (r Restored, unreadable, err error) {
	x.Reset()
	ends := make(Ends)
	r.Ends = ends
	newest := uint64(0)
	kept, err := restore(ctx, target, func(e event.Event) {
		r.Epoch = max(r.Epoch, e.Epoch)
		r.Others = r.Others || e.Target != target
		if e.ResourceVersion >= newest {
			newest = e.ResourceVersion
			r.Resource = schema.GroupVersionResource{Group: e.Group, Version: e.Version, Resource: e.Resource}
			r.Kind = e.Kind
		}
		if e.Op.Ends() {
			ends[index.Key(e.Namespace, e.Name)] = endedBy(&e)
			return
		}
		one := x.Put(index.ID{Namespace: e.Namespace, Name: e.Name, UID: e.UID})
		one.RV, one.Ordinal = e.ResourceVersion, e.Ordinal
		if one.Epoch = e.Epoch; e.Reannounced() {
			one.Run = e.Run
		}
	})
	if err != nil {
		return r, nil, fmt.Errorf("read the journal: %w", err)
	}
	r.Lost = kept.Void
	if len(kept.Mark) == 0 {
		return r, nil, nil
	}
	if unreadable = json.Unmarshal(kept.Mark, &r.Mark); unreadable != nil {
		r.Mark, r.Text = Mark{}, string(kept.Mark)
		return r, unreadable, nil
	}
	if r.Marked = !r.Lost; r.Lost {
		r.Mark = Mark{Epoch: r.Mark.Epoch, RV: r.Mark.RV}
	}
	return r, nil, nil
}
