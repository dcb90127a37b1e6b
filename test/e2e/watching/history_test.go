package watching_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/informd/informd/test/e2e"
)

// life is what etcd knows of one object.
type life struct {
	target, uid string
	revisions   []uint64
	end         uint64 // the revision of its deletion, 0 if it is there
	// left is the revision at which its definition was removed without it, 0 if it was not:
	// the API server can leave objects in etcd. back is that at which the definition returned,
	// and the object with it.
	left, back uint64
}

// gone reports whether the API server does not show it.
func (l *life) gone() bool { return l.end != 0 || l.left > l.back }

func (l *life) last() uint64 { return l.revisions[len(l.revisions)-1] }

// history is what happened to custom resources, as etcd itself has it.
type history struct {
	lives map[string]*life // by uid
	// born are the revisions at which a target's definition was created, removed those at
	// which it was removed.
	born, removed map[string][]uint64
	// withoutV1 are the stretches in which a target's definition did not serve v1.
	withoutV1 map[string][]stretch
}

// stretch is that of revisions from one to another, 0 if it has not ended.
type stretch struct{ from, to uint64 }

// readHistory reads all of etcd's history of the custom resources of some groups.
func readHistory(t *testing.T, endpoint string, groups []string) *history {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop(), MaxCallRecvMsgSize: 64 << 20})
	e2e.Must(t, err)
	defer client.Close() //nolint:errcheck // nothing was written
	const registry, mark = "/registry/", "/registry/end-of-history"
	if _, err := client.Put(t.Context(), mark, ""); err != nil {
		t.Fatal(err)
	}
	h := &history{lives: make(map[string]*life), born: make(map[string][]uint64), removed: make(map[string][]uint64), withoutV1: make(map[string][]stretch)}
	there := make(map[string]*life) // by key
	timeout := time.After(e2e.Patience)
	watch := client.Watch(t.Context(), registry, clientv3.WithPrefix(), clientv3.WithRev(1))
	for {
		var response clientv3.WatchResponse
		select {
		case response = <-watch:
		case <-timeout:
			t.Fatalf("etcd's history was not read within %v", e2e.Patience)
		}
		e2e.Must(t, response.Err())
		for _, e := range response.Events {
			key := string(e.Kv.Key)
			if key == mark {
				return h
			}
			h.take(t, there, groups, strings.TrimPrefix(key, registry), e)
		}
	}
}

// take takes one revision: of /<group>/<resource>/[<namespace>/]<name>.
func (h *history) take(t *testing.T, there map[string]*life, groups []string, key string, e *clientv3.Event) {
	t.Helper()
	parts := strings.Split(key, "/")
	rv, gone := uint64(e.Kv.ModRevision), e.Type == clientv3.EventTypeDelete
	if definition, ok := strings.CutPrefix(key, "apiextensions.k8s.io/customresourcedefinitions/"); ok {
		h.takeDefinition(t, there, definition, e)
	}
	if len(parts) < 3 || !slices.Contains(groups, parts[0]) {
		return
	}
	if gone {
		there[key].end = rv
		delete(there, key)
		return
	}
	l := there[key]
	if l == nil {
		var object struct{ Metadata struct{ UID string } }
		if err := json.Unmarshal(e.Kv.Value, &object); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		l = &life{target: parts[0] + "/" + parts[1], uid: object.Metadata.UID}
		there[key], h.lives[l.uid] = l, l
	}
	l.revisions = append(l.revisions, rv)
}

// takeDefinition takes one revision of the definition <resource>.<group>.
func (h *history) takeDefinition(t *testing.T, there map[string]*life, name string, e *clientv3.Event) {
	t.Helper()
	plural, group, _ := strings.Cut(name, ".")
	target, rv := group+"/"+plural, uint64(e.Kv.ModRevision)
	without := h.withoutV1[target]
	if n := len(without); n > 0 && without[n-1].to == 0 {
		without[n-1].to = rv
	}
	if e.Type == clientv3.EventTypeDelete {
		h.removed[target] = append(h.removed[target], rv)
	} else if e.IsCreate() {
		h.born[target] = append(h.born[target], rv)
	}
	for _, l := range there {
		switch {
		case l.target != target:
		case e.Type == clientv3.EventTypeDelete:
			l.left, l.back = rv, 0
		case e.IsCreate():
			l.back = rv
		}
	}
	if e.Type == clientv3.EventTypeDelete {
		return
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Name   string
				Served bool
			}
		}
	}
	if err := json.Unmarshal(e.Kv.Value, &definition); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, v := range definition.Spec.Versions {
		if n := len(without); v.Name != "v1" || v.Served {
			continue
		} else if n > 0 && without[n-1].to == rv {
			without[n-1].to = 0 // it goes on
		} else {
			h.withoutV1[target] = append(without, stretch{from: rv})
		}
	}
}

// left is how many objects the API server left in etcd without a definition.
func (h *history) left() (n int) {
	for _, l := range h.lives {
		if l.left != 0 {
			n++
		}
	}
	return n
}

func (h *history) revisions() (n int) {
	for _, l := range h.lives {
		n += len(l.revisions)
	}
	return n
}

// streamOf is what a sink has of the custom resources.
type streamOf struct {
	events map[string][]e2e.Record // by uid
	synced map[string][]uint64     // revisions by target
	gaps   map[string][]e2e.Record // by target
	// known are revisions up to which a target has brought all there was, or has said that
	// it has not.
	known map[string][]uint64
}

func sortOut(records []e2e.Record) *streamOf {
	s := &streamOf{
		events: make(map[string][]e2e.Record), synced: make(map[string][]uint64),
		gaps: make(map[string][]e2e.Record), known: make(map[string][]uint64),
	}
	listing := make(map[string]bool)
	for _, r := range records {
		target := e2e.GroupOrCore(r.Group) + "/" + r.Resource
		switch {
		case r.Op == "begin":
			listing[target] = true
		case r.Op == "synced":
			listing[target] = false
			s.synced[target] = append(s.synced[target], r.ResourceVersion)
		case r.Op == "gap":
			s.gaps[target] = append(s.gaps[target], r)
		case !r.Control():
			s.events[r.UID] = append(s.events[r.UID], r)
		}
		switch {
		case r.Op == "gap":
			s.known[target] = append(s.known[target], r.ToRV)
		case r.Op == "synced", !r.Control() && !listing[target]:
			s.known[target] = append(s.known[target], r.ResourceVersion)
		}
	}
	return s
}

func (s *streamOf) String() string {
	gaps := make(map[string]int)
	for _, all := range s.gaps {
		for _, g := range all {
			gaps[g.Reason+" "+g.Recovered]++
		}
	}
	return fmt.Sprintf("%d objects announced, gaps: %v", len(s.events), gaps)
}

// reached reports whether the last word about every object is as etcd has it.
func (h *history) reached(records []e2e.Record) bool { return len(h.behind(records)) == 0 }

// behind are the objects whose last word is not yet that of etcd.
func (h *history) behind(records []e2e.Record) (behind []string) {
	s := sortOut(records)
	for uid, l := range h.lives {
		var last e2e.Record
		if events := s.events[uid]; len(events) > 0 {
			last = events[len(events)-1]
		}
		if gone := l.gone(); !gone && last.ResourceVersion != l.last() || gone && last.Op != "" && last.Op != "deleted" {
			behind = append(behind, fmt.Sprintf("%s %s: ends with %q at %d; in etcd its last revision is %d, and its end %d",
				l.target, uid, last.Op, last.ResourceVersion, l.last(), l.end))
		}
	}
	return behind
}

// check holds a sink's records to the history: nothing twice, the states of every
// object in order and in an unbroken chain, none missing without a reason, the last
// one that of etcd, and one deletion for all that was announced and is gone.
// What a target in onlyV1 missed before its first list, while that was not served, has
// a reason.
func (h *history) check(t *testing.T, records []e2e.Record, onlyV1 map[string]bool) *streamOf {
	t.Helper()
	ids := make(map[string]bool)
	for _, r := range records {
		if ids[r.ID] {
			t.Errorf("id %s repeated", r.ID)
		}
		ids[r.ID] = true
	}
	s := sortOut(records)
	for uid, events := range s.events {
		if h.lives[uid] == nil {
			t.Errorf("%s was never written", events[0].ID)
		}
	}
	for _, l := range h.lives {
		h.checkLife(t, s, l, onlyV1[l.target])
	}
	for target, gaps := range s.gaps {
		for _, gap := range gaps {
			if gap.Reason == "unserved" && !h.wasRemoved(target, gap) {
				t.Errorf("%s: gap (%d,%d] has no removal in it or before, they were at %v, installed at %v", target, gap.FromRV, gap.ToRV, h.removed[target], h.born[target])
			}
		}
	}
	if left := h.left(); left > len(h.lives)/20 {
		t.Errorf("%d of %d objects were left in etcd", left, len(h.lives))
	}
	return s
}

// wasRemoved reports whether the definition was removed in a gap, or was not there when it began: an API server
// serves a resource, with its bookmarks, until it has seen the removal itself.
func (h *history) wasRemoved(target string, gap e2e.Record) bool {
	return slices.ContainsFunc(h.removed[target], func(at uint64) bool { return e2e.InGap(gap, at) }) ||
		lastUntil(h.removed[target], gap.FromRV) > lastUntil(h.born[target], gap.FromRV)
}

// lastUntil is the last of the revisions that is not after rv, 0 if none is.
func lastUntil(revisions []uint64, rv uint64) (last uint64) {
	for _, at := range revisions {
		if at <= rv {
			last = max(last, at)
		}
	}
	return last
}

func (h *history) checkLife(t *testing.T, s *streamOf, l *life, onlyV1 bool) {
	t.Helper()
	var seen []uint64
	var last e2e.Record
	events := s.events[l.uid]
	for _, r := range events {
		if l.back != 0 && last.Op == "deleted" {
			last = e2e.Record{ResourceVersion: r.PrevResourceVersion, Ordinal: r.Ordinal - 1} // it has returned
		}
		if r.PrevResourceVersion != last.ResourceVersion || r.Ordinal != last.Ordinal+1 || r.ResourceVersion <= last.ResourceVersion || last.Op == "deleted" {
			t.Errorf("%s %s: %s at %d, number %d after %d, follows %s at %d, number %d", l.target, r.ID,
				r.Op, r.ResourceVersion, r.Ordinal, r.PrevResourceVersion, last.Op, last.ResourceVersion, last.Ordinal)
		}
		last = r
		if r.Op != "deleted" {
			seen = append(seen, r.ResourceVersion)
			continue
		}
		if left := l.left != 0 && r.Replay && r.ResourceVersion >= l.left; !left &&
			(l.end == 0 || r.ResourceVersion < l.end || !r.Replay && r.ResourceVersion != l.end) {
			t.Errorf("%s %s: deleted at %d (found by comparison: %t), in etcd at %d", l.target, r.ID, r.ResourceVersion, r.Replay, l.end)
		}
	}
	if announced := len(events) > 0; announced && l.gone() != (last.Op == "deleted") || !l.gone() && last.ResourceVersion != l.last() {
		t.Errorf("%s %s: ends with %s at %d; in etcd its last revision is %d, and its end %d", l.target, l.uid, last.Op, last.ResourceVersion, l.last(), l.end)
	}
	for _, rv := range seen {
		if !slices.Contains(l.revisions, rv) {
			t.Errorf("%s %s: revision %d was never written", l.target, l.uid, rv)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(l.revisions), func(rv uint64) bool {
		return slices.Contains(seen, rv) || h.beforeFirstList(s, l, rv) || inAGap(s, l, rv, len(events) == 0) ||
			onlyV1 && len(events) == 0 && h.hidden(s, l)
	})
	if len(missing) > 0 {
		t.Errorf("%s %s (%v, end %d): revisions %v are missing, and in no gap; got %v, synced at %v, served since %v", l.target, l.uid,
			l.revisions, l.end, missing, seen, s.synced[l.target], h.born[l.target])
	}
}

// beforeFirstList reports whether a revision came before the first list of the
// resource after it was installed. There is none if the resource was removed before that.
func (h *history) beforeFirstList(s *streamOf, l *life, rv uint64) bool {
	born := lastUntil(h.born[l.target], rv)
	return !slices.ContainsFunc(s.known[l.target], func(at uint64) bool { return born <= at && at < rv })
}

// hidden reports whether an object lived while v1 was not served, before any list.
func (h *history) hidden(s *streamOf, l *life) bool {
	listed := slices.ContainsFunc(s.synced[l.target], func(at uint64) bool { return at < l.end })
	return l.end != 0 && !listed && slices.ContainsFunc(h.withoutV1[l.target], func(w stretch) bool {
		return w.from < l.revisions[0] && (w.to == 0 || l.end <= w.to)
	})
}

// inAGap reports whether a gap says that a revision may be missing. One that says
// that all is known excuses no more than objects that came and went in it.
func inAGap(s *streamOf, l *life, rv uint64, unannounced bool) bool {
	return slices.ContainsFunc(s.gaps[l.target], func(gap e2e.Record) bool {
		whole := gap.FromRV < l.revisions[0] && l.end != 0 && l.end <= gap.ToRV && unannounced
		return e2e.InGap(gap, rv) && (gap.Recovered != "known" || whole)
	})
}
