package journal_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// modelSink is a consumer that keeps the last state of each object.
type modelSink struct {
	m     *model
	name  string
	now   bool // begins with what is new
	known bool // was open before
	start uint64
	lacks bool // events may have been removed before it read them
	// rewound: the bounds of snapshots may have been left out.
	rewound bool
	rows    map[string]event.Event
	hard    map[string]bool // ids of additions that it got
	uids    map[string]bool

	c     *journal.Cursor
	spans map[string]map[uint64]map[string]bool // what was shown, by target and run
	// Since it was opened, reset or rewound:
	prev    uint64 // the last sequence
	exact   bool   // prev is known
	trimmed uint64 // by gaps since prev
	newest  map[string]uint64
	got     []uint64 // sequences that are not committed
}

func (s *modelSink) open() {
	start := journal.FromSnapshot
	if s.now {
		start = journal.FromNow
	}
	if !s.known {
		s.start = s.m.j.Stats().LastSeq
	}
	c, err := s.m.j.Open(s.name, start)
	if s.m.fails(err) {
		return
	}
	s.c, s.known = c, true
	s.begin()
}

// begin notes where the cursor is.
func (s *modelSink) begin() {
	at, first := journal.Position(s.c)
	s.prev, s.exact, s.trimmed, s.newest, s.got = at, !first, 0, map[string]uint64{}, nil
	if s.spans == nil {
		s.spans = map[string]map[uint64]map[string]bool{}
	}
}

func (s *modelSink) reset(err error) {
	if !s.m.fails(err) {
		s.begin()
	}
}

func (s *modelSink) close() {
	if s.m.fails(s.c.Close()) {
		return
	}
	s.c = nil
}

// crashed is called after the log was opened again, which ends at a sequence.
func (s *modelSink) crashed(end uint64) {
	s.c = nil
	added, uids := map[string]bool{}, map[string]bool{}
	for _, l := range s.m.log {
		added[l.event.ID], uids[l.event.UID] = true, true
	}
	for id := range s.hard {
		if !added[id] {
			s.m.t.Errorf("step %d: %s has %s, and the log has not", s.m.steps, s.name, id)
		}
	}
	for uid := range s.uids {
		if !uids[uid] {
			s.m.t.Errorf("step %d: %s has the object %s, and the log has not", s.m.steps, s.name, uid)
		}
	}
	if s.open(); s.c != nil && s.m.IntN(3) > 0 {
		if at, _ := journal.Position(s.c); at > end && at != s.start {
			s.m.t.Errorf("step %d: %s is at %d, and the log ends at %d", s.m.steps, s.name, at, end)
		}
	}
}

func (s *modelSink) rewind() {
	if s.c.Rewindable() != nil {
		return
	}
	s.lacks, s.rewound = true, true // without what was removed, and without bounds
	_, err := s.c.Rewind(s.m.t.Context(), time.Now().Add(-time.Duration(s.m.IntN(20))*time.Millisecond))
	if s.m.fails(err) {
		return
	}
	s.begin()
	s.exact = false
}

func (s *modelSink) resnapshot() {
	if len(s.c.Requests()) == journal.MaxRequests {
		return
	}
	r := journal.Resnapshot{Run: uint64(s.m.steps) + 2e6}
	begin := event.Event{Cluster: "test", Target: s.m.target(), Version: "v1", Replay: true}
	begin.Resource = begin.Target[len("core/"):]
	end := begin
	begin.SetBound(event.Begin, r.Run, 1)
	end.SetBound(event.Synced, r.Run, 1)
	r.Begin, r.End = []event.Event{begin}, []event.Event{end}
	s.m.fails(s.c.Request(s.m.t.Context(), r))
}

func (s *modelSink) commit() {
	if len(s.got) == 0 {
		return
	}
	i := s.m.IntN(len(s.got))
	if s.m.IntN(2) == 0 {
		i = len(s.got) - 1
	}
	if !s.m.fails(s.c.Commit(s.got[i])) {
		s.got = s.got[i+1:]
	}
}

func (s *modelSink) read(limit int) int {
	entries, err := journal.Poll(s.m.t.Context(), s.c, limit)
	if s.m.fails(err) {
		return 0
	}
	for i := range entries {
		s.take(&entries[i])
	}
	return len(entries)
}

func (s *modelSink) take(entry *journal.Entry) {
	e := &entry.Event
	if e.Gap != nil {
		if s.trimmed += e.Gap.Trimmed; !s.lacks {
			s.m.t.Errorf("step %d: %s lacks %d events", s.m.steps, s.name, e.Gap.Trimmed)
		}
		return
	}
	s.sequence(entry)
	key := keyOf(e)
	switch {
	case e.Op == event.Begin:
		if s.spans[e.Target] == nil {
			s.spans[e.Target] = map[uint64]map[string]bool{}
		}
		s.spans[e.Target][e.Run] = map[string]bool{}
	case e.Op == event.Synced:
		s.complete(entry)
		_, err := s.c.Complete(e.Run) // if it was requested
		s.m.fails(err)
	case e.Redelivered:
	default:
		if e.ResourceVersion < s.newest[key] {
			s.m.t.Errorf("step %d: %s got %s of %s at %d after %d", s.m.steps, s.name, e.Op, key, e.ResourceVersion, s.newest[key])
		}
		s.newest[key] = e.ResourceVersion
		s.apply(key, e)
	}
	if entry.Seq != 0 && e.Op == event.Added && !e.Redelivered {
		s.hard[e.ID] = true
	}
	if !e.Op.Control() {
		s.uids[e.UID] = true
	}
}

// sequence holds a sequence against the list: what is between it and the last one was removed, and
// counted.
func (s *modelSink) sequence(entry *journal.Entry) {
	if entry.Seq == 0 {
		return
	}
	if s.got = append(s.got, entry.Seq); entry.Seq < s.prev || s.exact && entry.Seq == s.prev {
		s.m.t.Errorf("step %d: %s got %d after %d", s.m.steps, s.name, entry.Seq, s.prev)
	}
	least, most := uint64(0), uint64(0)
	for _, l := range s.m.log {
		if l.seq > s.prev && l.seq < entry.Seq {
			if most++; !s.rewound || !l.event.Op.Bounds() {
				least++
			}
		}
	}
	if s.exact && (s.trimmed < least || s.trimmed > most) {
		s.m.t.Errorf("step %d: %s lacks %d to %d events between %d and %d, and gaps say %d", s.m.steps, s.name, least, most, s.prev, entry.Seq, s.trimmed)
	}
	s.prev, s.exact, s.trimmed = entry.Seq, true, 0
}

func (s *modelSink) apply(key string, e *event.Event) {
	if row, has := s.rows[key]; has && row.UID != e.UID && e.ResourceVersion > row.ResourceVersion {
		s.m.t.Errorf("step %d: %s got %s of %s, and no deletion of %s", s.m.steps, s.name, e.UID, key, row.UID)
	}
	if e.Op.Ends() {
		delete(s.rows, key)
	} else {
		s.rows[key] = *e
	}
	if _, open := s.spans[e.Target][e.Run]; e.Run == 0 || open { // else it was redelivered, says docs/materialised-view.md
		for _, shown := range s.spans[e.Target] {
			shown[key] = !e.Op.Ends()
		}
	}
}

// complete drops the objects of a target that its snapshot did not show.
func (s *modelSink) complete(entry *journal.Entry) {
	e := &entry.Event
	shown, begun := s.spans[e.Target][e.Run]
	if !begun {
		return
	}
	delete(s.spans[e.Target], e.Run)
	for key, row := range s.rows {
		if row.Target == e.Target && !shown[key] {
			delete(s.rows, key)
			if s.m.existed(key, max(entry.Seq, s.prev)) {
				s.m.t.Errorf("step %d: %s lost %s by %s", s.m.steps, s.name, key, e.ID)
			}
		}
	}
}

func (m *model) letter() {
	box := m.j.DeadLetters("s0")
	if m.IntN(3) == 0 && len(m.letters) > 0 {
		n := slices.Sorted(maps.Keys(m.letters))[m.IntN(len(m.letters))]
		delete(m.letters, n)
		left := m.letters
		m.letters = nil // unknown after an error
		if !m.fails(box.Drop(m.t.Context(), n)) {
			m.letters = left
		}
		return
	}
	text, before := fmt.Sprint("letter ", m.steps), m.letters
	m.letters = nil
	if !m.fails(box.Put(m.t.Context(), []byte(text))) {
		m.letters = m.readLetters(before, text)
		if before != nil && m.letters != nil && len(m.letters) != len(before)+1 {
			m.t.Errorf("step %d: %d letters, and one more makes %d", m.steps, len(before), len(m.letters))
		}
	}
}

func (m *model) readLetters(want map[uint64]string, more string) map[uint64]string {
	m.t.Helper()
	got := map[uint64]string{}
	err := m.j.DeadLetters("s0").Each(m.t.Context(), func(n uint64, text []byte) error {
		got[n] = string(text)
		return nil
	})
	if m.fails(err) {
		return nil
	}
	for n, text := range got {
		if want != nil && want[n] != text && text != more {
			m.t.Errorf("step %d: letter %d is %q", m.steps, n, text)
		}
	}
	for n := range want {
		if got[n] == "" {
			m.t.Errorf("step %d: letter %d is lost", m.steps, n)
		}
	}
	return got
}

// forget forgets an object that exists, as an edit of the config does.
func (m *model) forget() {
	key := m.key()
	if e, known := m.objects[key]; known && !e.Op.Ends() && !m.forgotten[key] {
		m.forgetKey(key)
	}
}

func (m *model) forgetKey(key string) {
	e := m.objects[key]
	m.forgotten[key] = true
	m.forgets = append(m.forgets, logged{m.highest, e})
	m.fails(m.j.Forget(m.t.Context(), []event.Event{e}))
}

// loseForgets notes the forgets that may be lost, after a crash that has left the log up to a sequence.
func (m *model) loseForgets(end uint64) {
	m.forgets = slices.DeleteFunc(m.forgets, func(f logged) bool {
		if f.seq >= end {
			m.pending[keyOf(&f.event)] = f
		}
		return f.seq >= end
	})
}

// findForgets keeps the forgets that were not lost: those of objects that the log has events of, and does not restore.
func (m *model) findForgets(missing map[string]uint64) {
	for key, f := range m.pending {
		if _, is := missing[key]; is {
			m.forgets = append(m.forgets, f)
			delete(missing, key)
			delete(m.pending, key)
		}
	}
}

// forgetAgain repeats what was lost, as the next comparison does. A crash meanwhile begins it again.
func (m *model) forgetAgain() {
	for _, key := range slices.Sorted(maps.Keys(m.pending)) {
		if _, is := m.pending[key]; is && m.forgotten[key] {
			m.forgetKey(key)
		}
		delete(m.pending, key)
	}
}

// forgottenAfter reports whether an object was forgotten after its event at a sequence, and has had none since.
func (m *model) forgottenAfter(key string, seq uint64) bool {
	return slices.ContainsFunc(m.forgets, func(f logged) bool { return f.seq >= seq && keyOf(&f.event) == key })
}

// existed reports whether an object existed at a sequence.
func (m *model) existed(key string, seq uint64) (is bool) {
	for _, l := range m.log {
		if l.seq <= seq && keyOf(&l.event) == key {
			is = !l.event.Op.Ends() && !m.forgottenAfter(key, l.seq)
		}
	}
	return is
}
