package jetstream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// If the stream is still short of space after reclaim, the namespaces share the limit: each
// may keep as many bytes as any other. A namespace with more loses its oldest superseded
// events until it is at that level, although sinks have not read them. A sink gets a gap event
// with their number, as it does for events that the history limit removes. The last event of
// every object stays, as it is the object's state, and so do control events, copies of
// deletions, and what is between the beginning and the end of a snapshot: a consumer takes an
// object without an event there for one that is gone.
//
// The sizes are those of all messages: an estimate from the last message of each object would
// be wrong by the factor that a tenant chooses.

const (
	// shareTo is the share of the limit, in percent, that is left in use.
	shareTo = 80
	// maxFilters bounds the namespaces that the second scan names. With more it reads all.
	maxFilters = 64
	// maxCuts bounds the subjects that are collected before their events are removed.
	maxCuts = 10_000
)

// share removes superseded events of the namespaces that hold the most. It reads the headers
// of all messages, of namespaces above the level twice.
func (n *janitor) share(ctx context.Context) error {
	limit := n.shareable()
	if limit == 0 {
		return nil
	}
	_, passed := n.passed()
	c := &census{
		journal: n.journal, end: n.journal.tail.end(), passed: passed, index: map[string]int{}, last: map[uint64]lastOf{},
		snapshots: map[string][]span{}, kept: map[uint64]struct{}{},
	}
	if err := c.count(ctx); err != nil {
		return fmt.Errorf("count bytes of namespaces: %w", err)
	}
	var excess uint64
	goal := goalOf(limit, c.all)
	n.enough = goal + (limit-min(goal, limit))/2
	level := level(c.all, goal)
	for i := range c.all {
		u := &c.all[i]
		u.excess = u.bytes - u.keeps(level)
		excess += u.excess
	}
	if excess == 0 {
		return nil
	}
	lost, err := c.drop(ctx, n.purge)
	n.report(lost, level)
	if err != nil {
		return fmt.Errorf("share space among namespaces: %w", err)
	}
	n.journal.look(ctx)
	return nil
}

// shareable returns the limit to share, 0 if there is nothing to do. What every sink has
// passed must be known first. Once the
// embedded server has lowered the limit to what the stream holds, as others fill the disk,
// nothing is removed.
func (n *janitor) shareable() uint64 {
	j := n.journal
	j.mu.Lock()
	holds := j.holds
	j.mu.Unlock()
	switch {
	case holds.bytes <= holds.capacity/100*shareTo,
		(!holds.isShort() || holds.bytes <= n.enough) && j.blocked.Load() == 0,
		holds.capacity <= holds.bytes && holds.capacity != uint64(max(j.config.MaxBytes, 0)):
		return 0
	}
	open := j.openCursors()
	for _, c := range open {
		if !c.located() {
			return 0
		}
	}
	if len(open) == 0 {
		return 0
	}
	return holds.capacity
}

// located reports whether the cursor's position is known and saved.
func (c *cursor) located() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.saved.Created.IsZero()
}

// usage is what a namespace holds, in bytes.
type usage struct {
	namespace string // as in subjects; "" for control events
	bytes     uint64
	states    uint64 // of bytes, those that stay in any case
	excess    uint64 // those that are to be removed
}

// keeps is how much is left of the namespace at a level.
func (u *usage) keeps(level uint64) uint64 { return min(u.bytes, max(level, u.states)) }

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
		high = max(high, all[i].bytes)
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

// lastOf is the last message of a subject.
type lastOf struct {
	seq  uint64
	size uint32
}

// span is from the beginning of a snapshot to its end.
type span struct{ from, to uint64 }

// census counts the bytes of the namespaces in the stream, up to the sequence end. It takes
// some 40 bytes for each subject.
type census struct {
	journal *Journal
	end     uint64
	passed  uint64 // by every sink
	all     []usage
	index   map[string]int // in all, by namespace
	last    map[uint64]lastOf
	// snapshots are those that a sink has not passed, by target, and kept the subjects that
	// have an event in one.
	snapshots map[string][]span
	kept      map[uint64]struct{}
}

// count reads the headers of all messages.
func (c *census) count(ctx context.Context) error {
	return c.each(ctx, nil, func(m message) (bool, error) {
		namespace, _ := c.journal.config.namespaceOf(m)
		at, ok := c.index[namespace]
		if !ok {
			at = len(c.all)
			c.index[namespace] = at
			c.all = append(c.all, usage{namespace: namespace})
		}
		u, size, subject := &c.all[at], storedSize(m), c.journal.heads.hash(m.Subject)
		u.bytes += uint64(size)
		if namespace == "" {
			u.states += uint64(size)
			c.noteBound(m)
			return true, nil
		}
		u.states += uint64(size) - uint64(c.last[subject].size)
		c.last[subject] = lastOf{seq: m.seq, size: size}
		return true, nil
	})
}

// noteBound notes the beginning or the end of a snapshot. One that has not ended lasts.
func (c *census) noteBound(m message) {
	e, err := parse(m.Header)
	if err != nil || !e.Op.Bounds() {
		return
	}
	all := c.snapshots[e.Target]
	switch last := len(all) - 1; {
	case e.Op == event.Begin:
		all = append(all, span{m.seq, math.MaxUint64})
	case last < 0: // its beginning is gone
		all = append(all, span{0, m.seq})
	default:
		all[last].to = m.seq
	}
	c.snapshots[e.Target] = slices.DeleteFunc(all, func(s span) bool { return s.to <= c.passed })
}

// keeps reports whether an event is in a snapshot, or behind one of its subject that is: a
// purge would take both.
func (c *census) keeps(m message) bool {
	subject := c.journal.heads.hash(m.Subject)
	if _, is := c.kept[subject]; is {
		return true
	}
	if len(c.snapshots) == 0 {
		return false
	}
	e, err := parse(m.Header)
	if err == nil && !slices.ContainsFunc(c.snapshots[e.Target], func(s span) bool { return s.from < m.seq && m.seq < s.to }) {
		return false
	}
	c.kept[subject] = struct{}{}
	return true
}

// cut is where the events that are removed of a subject end.
type cut struct {
	below  uint64 // this sequence
	at     int    // its namespace's place in census.all
	unread uint64 // how many events a sink has not passed
}

// drop removes the oldest superseded events of the namespaces with an excess. It returns how
// many of each namespace were removed that a sink has not passed.
func (c *census) drop(ctx context.Context, purge func(ctx context.Context, subject string, seq uint64) error) (lost map[string]uint64, err error) {
	lost = map[string]uint64{}
	cuts := map[string]cut{}
	flush := func() error {
		for subject, of := range cuts {
			if err := purge(ctx, subject, of.below); err != nil {
				return err
			}
			lost[c.all[of.at].namespace] += of.unread
		}
		clear(cuts)
		return nil
	}
	filters, left := c.excessive()
	err = c.each(ctx, filters, func(m message) (bool, error) {
		namespace, object := c.journal.config.namespaceOf(m)
		at, known := c.index[namespace]
		if !object || !known || c.all[at].excess == 0 || m.seq >= c.last[c.journal.heads.hash(m.Subject)].seq || c.keeps(m) {
			return left > 0, nil
		}
		u, of := &c.all[at], cuts[m.Subject]
		if u.excess -= min(u.excess, uint64(storedSize(m))); u.excess == 0 {
			left--
		}
		of.below, of.at = m.seq+1, at
		if m.seq > c.passed {
			of.unread++
		}
		if cuts[m.Subject] = of; len(cuts) < maxCuts {
			return left > 0, nil
		}
		return left > 0, flush()
	})
	if err == nil {
		err = flush()
	}
	return lost, err
}

// excessive returns the filters of the namespaces with an excess, none if they are many, and
// how many they are.
func (c *census) excessive() (filters []string, n int) {
	for i := range c.all {
		if c.all[i].excess == 0 {
			continue
		}
		if n++; n <= maxFilters {
			filters = append(filters, c.journal.config.root()+".*.*."+c.all[i].namespace+".*")
		}
	}
	if n > maxFilters {
		return nil, n
	}
	return filters, n
}

// each calls do with the headers of every message up to the end, until it returns false.
func (c *census) each(ctx context.Context, filters []string, do func(m message) (bool, error)) error {
	if c.end == 0 {
		return nil
	}
	p, err := c.journal.pull(ctx, scan{
		stream: c.journal.stream, policy: js.DeliverAllPolicy, to: c.end, filters: filters, headers: true, batch: scanBatch,
	})
	if err != nil {
		return err
	}
	defer p.close(ctx)
	for {
		found, err := p.next(ctx)
		if err != nil {
			return err
		}
		for _, m := range found {
			if more, err := do(m); err != nil || !more {
				return err
			}
		}
		if p.over {
			return nil
		}
	}
}

// report counts and logs what namespaces have lost.
func (n *janitor) report(lost map[string]uint64, level uint64) {
	j, named := n.journal, make(map[string]uint64, len(lost))
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
	j.mu.Lock()
	if j.dropped == nil {
		j.dropped = map[string]uint64{}
	}
	journal.AddDropped(j.dropped, named)
	j.mu.Unlock()
	worst := slices.SortedFunc(maps.Keys(named), func(a, b string) int {
		return cmp.Or(cmp.Compare(named[b], named[a]), cmp.Compare(a, b))
	})
	shown := worst[:min(len(worst), shownNamespaces)]
	for i, namespace := range shown {
		shown[i] = fmt.Sprintf("%s: %d events", namespace, named[namespace])
	}
	j.logger.Warn("the journal is nearly full: the namespaces that hold the most lose old events that sinks have not read; those sinks get gap events; raise journal.maxBytes to keep more",
		slog.Any("worst", shown), slog.Int("namespaces", len(worst)), slog.Uint64("events", events), slog.Uint64("bytes_for_each", level))
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

// namespaceOf returns the token of the namespace that a message counts for, "" for control
// events, and whether the message is an event of an object. The copy of a deletion counts for
// the namespace of its object.
func (c *Config) namespaceOf(m message) (token string, object bool) {
	tokens := strings.Split(strings.TrimPrefix(m.Subject, c.root()+"."), ".")
	switch {
	case strings.ContainsAny(m.Subject, "*>"):
		return "", false // not informd's, and as a filter it would match others
	case len(tokens) == 4 && tokens[0] != "_informd":
		return tokens[2], true
	case copyOf(m) == 0:
		return "", false
	}
	e, err := parse(m.Header)
	switch {
	case err != nil:
		return "", false
	case e.Namespace == "":
		return clusterScoped, false
	}
	return event.EscapeToken(e.Namespace), false
}

// What a message takes on the server beside its subject, headers and body, and the header
// with the size of a body that was left out.
const (
	storedOverhead = 34
	headerSize     = "Nats-Msg-Size"
)

// storedSize is how many bytes of the stream's limit a message takes, of which the body was
// left out.
func storedSize(m message) uint32 {
	size := len(m.Subject) + headersRoom + storedOverhead
	for name, values := range m.Header {
		for _, value := range values {
			if name != headerSize {
				size += len(name) + len(value) + headerRoom
			}
		}
	}
	body, err := strconv.ParseUint(m.header(headerSize), 10, 31)
	if err != nil {
		body = 0
	}
	return uint32(min(uint64(size)+body, math.MaxUint32))
}
