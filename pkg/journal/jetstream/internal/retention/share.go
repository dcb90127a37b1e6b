package retention

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// If the stream is still short of space after reclaim, the namespaces share the limit: each
// may keep as many bytes as any other. A namespace with more loses its oldest superseded
// events until it is at that level, although sinks have not read them. A sink gets a gap event
// with their number, as it does for events that the history limit removes. The last event of
// every object stays, as it is the object's state, and so do control events and copies of
// deletions. The last event of each object in a snapshot stays until every sink has passed the
// snapshot: a consumer takes an object without an event there for a deleted one. Later events
// of the object then stay, too.
//
// The sizes are those of all messages: an estimate from the last message of each object would
// be wrong by the factor that a tenant chooses.

// shareTo is the share of the limit, in percent, that is left in use.
const shareTo = 80

// Share removes superseded events of the namespaces that hold the most. It reads the headers
// of all messages, of namespaces above the level twice.
func (n *Janitor) Share(ctx context.Context) error {
	limit := n.shareable()
	if limit == 0 {
		return nil
	}
	_, passed := n.Passed()
	c := NewCensus(n.log, n.Root, passed)
	if err := c.Count(ctx); err != nil {
		return fmt.Errorf("count bytes of namespaces: %w", err)
	}
	var excess uint64
	goal := goalOf(limit, c.All)
	n.enough = goal + (limit-min(goal, limit))/2
	level := level(c.All, goal)
	for i := range c.All {
		u := &c.All[i]
		u.excess = u.Bytes - u.keeps(level)
		excess += u.excess
	}
	if excess == 0 {
		return nil
	}
	lost, err := c.drop(ctx, n.purge)
	n.report(lost, level)
	if err != nil {
		return fmt.Errorf("remove events of large namespaces: %w", err)
	}
	n.Look(ctx)
	return nil
}

// shareable returns the limit to share, 0 if there is nothing to do. What every sink has
// passed must be known first. Once the
// embedded server has lowered the limit to what the stream holds, as others fill the disk,
// nothing is removed.
func (n *Janitor) shareable() uint64 {
	holds := n.Space.Now()
	switch {
	case holds.Bytes <= holds.Capacity/100*shareTo,
		(!holds.isShort() || holds.Bytes <= n.enough) && !n.Blocked(),
		holds.Capacity <= holds.Bytes && holds.Capacity != uint64(max(n.MaxBytes, 0)):
		return 0
	}
	if !n.Located() {
		return 0
	}
	return holds.Capacity
}

// usage is what a namespace holds, in bytes.
type usage struct {
	Namespace string // as in subjects; "" for control events
	Bytes     uint64
	states    uint64 // of bytes, those that stay in any case
	excess    uint64 // those that are to be removed
}

// keeps is how much is left of the namespace at a level.
func (u *usage) keeps(level uint64) uint64 { return min(u.Bytes, max(level, u.states)) }

// goalOf returns how many bytes may stay in all: shareTo of the limit, or where the states
// alone are nearly that much, half of the rest.
func goalOf(limit uint64, all []usage) uint64 {
	var states uint64
	for i := range all {
		states += all[i].states
	}
	return max(limit/100*shareTo, (min(states, limit)+limit)/2)
}

// level returns the highest level at which all namespaces together keep at most goal bytes, 0
// if there is none. A namespace with no more than that loses nothing.
func level(all []usage, goal uint64) uint64 {
	var low, high uint64
	for i := range all {
		high = max(high, all[i].Bytes)
	}
	for low < high {
		middle := low + (high-low+1)/2
		var kept uint64
		for i := range all {
			kept += all[i].keeps(middle)
		}
		if kept <= goal {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// report counts and logs what namespaces have lost.
func (n *Janitor) report(lost map[string]uint64, level uint64) {
	named := make(map[string]uint64, len(lost))
	var events uint64
	for token, count := range lost {
		if count == 0 {
			continue // every sink had them
		}
		named[shownNamespace(token)] += count
		events += count
	}
	if events == 0 {
		return
	}
	n.Space.drop(named)
	worst := slices.SortedFunc(maps.Keys(named), func(a, b string) int {
		return cmp.Or(cmp.Compare(named[b], named[a]), cmp.Compare(a, b))
	})
	shown := worst[:min(len(worst), shownNamespaces)]
	for i, namespace := range shown {
		shown[i] = fmt.Sprintf("%s: %d events", namespace, named[namespace])
	}
	n.log.Logger.Warn("journal nearly full; unread events of large namespaces removed",
		slog.Any("largest", shown), slog.Int("namespaces", len(worst)), slog.Uint64("count", events), slog.Uint64("bytes_per_namespace", level),
		slog.String("next", "raise journal.maxBytes; sinks that miss events get a gap"))
}

// shownNamespaces bounds the namespaces in a line of the log.
const shownNamespaces = 5

// shownNamespace is the name of a namespace for people, from its token in subjects.
func shownNamespace(token string) string {
	if token == clusterScoped {
		return journal.ClusterScoped
	}
	if name, err := event.UnescapeToken(token); err == nil && len(name) <= maxNamespace && strconv.Quote(name) == `"`+name+`"` {
		return name
	}
	quoted := strconv.QuoteToASCII(token)
	return quoted[1:min(len(quoted)-1, maxNamespace)]
}

// maxNamespace is the length of the longest name that the API server permits.
const maxNamespace = 63

// clusterScoped is the token of the namespace of cluster-scoped objects.
const clusterScoped = "_"
