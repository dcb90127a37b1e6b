package journal_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

// TestModel does at random what informd does with a journal, with ends of the process and of the
// power, and holds what sinks get against a list of all events. INFORMD_JOURNAL_SEEDS sets the number
// of runs.
func TestModel(t *testing.T) {
	seeds, err := strconv.ParseUint(cmp.Or(os.Getenv("INFORMD_JOURNAL_SEEDS"), modelSeeds), 10, 64)
	must(t, err)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newModel(t, seed)
			for m.steps = 0; m.steps < 300 && !t.Failed(); m.steps++ {
				m.step()
			}
			m.finish()
			journal.Kill(m.j)
		})
	}
}

// logged is an event in the log.
type logged struct {
	seq   uint64
	event event.Event
}

type model struct {
	*rand.Rand

	t       *testing.T
	steps   int
	disk    *disktest.Disk
	boot    int
	j       *journal.Journal
	spacy   bool // space is never short
	faults  bool
	rv      uint64
	objects map[string]event.Event // the last event of each, in the cluster
	lists   map[string]*modelList
	// forgotten are objects that the config excludes. The log knows them by forgets, with the sequence before.
	forgotten map[string]bool
	forgets   []logged
	// pending are the forgets that a crash may have lost.
	pending map[string]logged
	log     []logged
	unsure  []event.Event // of an Append that failed
	highest uint64        // sequence that was ever used
	sinks   []*modelSink
	letters map[uint64]string
}

// modelList is a list of a target that is in progress.
type modelList struct {
	run    uint64
	replay bool
	left   []string
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		Rand: rand.New(rand.NewPCG(seed, 1)), t: t, disk: disktest.New(seed), spacy: seed%3 == 0, faults: seed%2 == 0,
		objects: map[string]event.Event{}, lists: map[string]*modelList{}, letters: map[uint64]string{}, forgotten: map[string]bool{}, pending: map[string]logged{},
	}
	for i := range 4 {
		m.sinks = append(m.sinks, &modelSink{m: m, name: fmt.Sprint("s", i), now: i%2 == 0, rows: map[string]event.Event{}, hard: map[string]bool{}, uids: map[string]bool{}})
	}
	m.open()
	return m
}

func (m *model) open() {
	m.t.Helper()
	var err error
	m.j, err = journal.OpenOn(m.disk, journal.Config{
		Cluster: "test", HistoryPerObject: 2, Logger: slog.New(slog.DiscardHandler),
	}, fmt.Sprint("boot ", m.boot), 4<<10)
	if err != nil {
		m.t.Fatalf("step %d: %v", m.steps, err)
	}
	journal.Alone(m.j)
}

// fails reports whether an error is that of a lost disk, and continues after it.
func (m *model) fails(err error) bool {
	m.t.Helper()
	if err == nil {
		return false
	}
	if m.j.Failure() == nil && !errors.Is(err, disktest.ErrPowerLost) {
		m.t.Fatalf("step %d: %v", m.steps, err)
	}
	m.crash(true)
	return true
}

func (m *model) step() {
	s := m.sinks[m.IntN(len(m.sinks))]
	switch n := m.IntN(100); {
	case n < 33:
		m.change()
	case n < 35:
		m.forget()
	case n < 45:
		m.list()
	case s.c == nil:
		s.open()
	case n < 65:
		s.read(1 + m.IntN(20))
	case n < 75:
		s.commit()
	case n < 78:
		m.fails(journal.Save(m.j))
	case n < 86:
		m.compact()
	case n < 88:
		s.close()
	case n < 90:
		s.reset(s.c.Reset(m.t.Context()))
	case n < 91:
		s.rewind()
	case n < 93:
		s.resnapshot()
	case n < 95:
		m.letter()
	case n < 96:
		if n := len(m.log); n > 0 {
			m.fails(m.j.Mark(m.t.Context(), m.target(), strconv.AppendUint(nil, m.log[n-1].seq, 10)))
		}
	case n < 97 && m.faults:
		m.disk.Set(disktest.Faults{PowerAfter: 1 + m.IntN(30)})
	case n < 98:
		m.crash(m.IntN(2) == 0)
	}
}

func (m *model) target() string { return []string{"core/configmaps", "core/secrets"}[m.IntN(2)] }

// key names an object. Half of all changes are of few objects.
func (m *model) key() string {
	if m.IntN(2) == 0 {
		return fmt.Sprint("core/configmaps n0 ", m.IntN(2))
	}
	return fmt.Sprint(m.target(), " n", m.IntN(3), " ", m.IntN(6))
}

// change appends a change of some objects.
func (m *model) change() {
	var all []event.Event
	for range 1 + m.IntN(4) {
		key := m.key()
		last, known := m.objects[key]
		op := event.Modified
		switch {
		case !known || last.Op.Ends():
			op = event.Added
		case m.forgotten[key]:
			op = event.Entered
		case m.IntN(8) == 0:
			op = event.Deleted
		case m.IntN(12) == 0: // as resync does
			last.Op, last.Replay = event.Snapshot, true
			last.SetRun(uint64(m.steps) + 1e6)
			all = append(all, last)
			continue
		}
		e := m.event(key, op)
		m.objects[key] = e
		delete(m.forgotten, key)
		all = append(all, e)
	}
	m.append(all...)
}

func (m *model) event(key string, op event.Op) event.Event {
	m.rv++
	last := m.objects[key]
	e := event.Event{Op: op, Cluster: "test", Version: "v1", UID: last.UID, ResourceVersion: m.rv, Data: make([]byte, m.IntN(400))}
	fmt.Sscan(key, &e.Target, &e.Namespace, &e.Name) //nolint:errcheck // of the model
	if e.Resource = e.Target[len("core/"):]; op == event.Added {
		e.UID = fmt.Sprint("uid-", m.rv)
	}
	if e.ID = form.ObjectID(e.UID, m.rv, 0); op == event.Deleted {
		e.ID = form.DeletedID(e.UID, 0)
	}
	return e
}

// list continues the list of a target, or begins one.
func (m *model) list() {
	target := m.target()
	l := m.lists[target]
	bound := func(op event.Op) event.Event {
		e := event.Event{Cluster: "test", Target: target, Version: "v1", Resource: target[len("core/"):], Replay: l.replay}
		e.SetBound(op, l.run, m.rv)
		return e
	}
	if l == nil {
		l = &modelList{run: uint64(m.steps) + 1, replay: m.IntN(2) == 0}
		for key, e := range m.objects {
			if e.Target == target {
				l.left = append(l.left, key)
			}
		}
		slices.Sort(l.left)
		m.lists[target] = l
		m.append(bound(event.Begin))
		return
	}
	var all []event.Event
	for range min(5, len(l.left)) {
		if e := m.objects[l.left[0]]; !e.Op.Ends() && !m.forgotten[l.left[0]] {
			e.Op, e.Replay = event.Snapshot, l.replay
			e.SetRun(l.run)
			all = append(all, e)
		}
		l.left = l.left[1:]
	}
	if len(l.left) == 0 {
		all = append(all, bound(event.Synced))
		delete(m.lists, target)
	}
	m.append(all...)
}

func (m *model) append(all ...event.Event) {
	m.t.Helper()
	if len(all) == 0 {
		return
	}
	m.unsure = all
	if m.fails(m.j.Append(m.t.Context(), all)) {
		return
	}
	m.unsure = nil
	last := m.j.Stats().LastSeq
	for i, e := range all {
		m.took(last-uint64(len(all)-1-i), e)
	}
}

// took notes that the log has an event.
func (m *model) took(seq uint64, e event.Event) {
	m.t.Helper()
	if seq <= m.highest {
		m.t.Fatalf("step %d: %s has the sequence %d, and %d was used", m.steps, e.ID, seq, m.highest)
	}
	m.highest = seq
	m.log = append(m.log, logged{seq, e})
}

func (m *model) compact() {
	short := !m.spacy && m.IntN(3) == 0
	for _, s := range m.sinks {
		s.lacks = s.lacks || short || s.c == nil
	}
	if short {
		journal.SetLimit(m.j, journal.LogStats(m.j).Bytes*int64(50+m.IntN(50))/100)
		defer journal.SetLimit(m.j, 1<<40)
	}
	m.fails(journal.Compact(m.t.Context(), m.j, short))
}

// crash ends the process or the power, and holds what is left against what must be.
func (m *model) crash(power bool) {
	m.t.Helper()
	if power {
		m.disk.PowerLoss()
	}
	journal.Kill(m.j)
	if _, err := m.disk.Names(); err != nil { // it may be unnoticed so far
		power = true
		m.boot++
		m.disk.Restart()
	} else {
		m.disk.Set(disktest.Faults{})
	}
	m.open()
	all, err := journal.Events(m.j)
	if err != nil {
		m.t.Fatalf("step %d: %v", m.steps, err)
	}
	end := uint64(0)
	for _, e := range all {
		end = max(end, e.Seq)
		if len(m.unsure) > 0 && e.Seq > m.highest && e.Event.ID == m.unsure[0].ID {
			m.took(e.Seq, m.unsure[0])
			m.unsure = m.unsure[1:]
		}
	}
	known, _ := slices.BinarySearchFunc(m.log, end+1, func(l logged, seq uint64) int { return int(l.seq) - int(seq) })
	var lost []event.Event
	for _, l := range m.log[known:] {
		lost = append(lost, l.event)
	}
	m.log = m.log[:known]
	if !power && len(lost) > 0 {
		m.t.Errorf("step %d: the end of the process lost %d events", m.steps, len(lost))
	}
	m.loseForgets(end)
	m.restored(end)
	for _, s := range m.sinks {
		s.crashed(end)
	}
	if m.letters = m.readLetters(m.letters, ""); len(m.unsure)+len(lost) > 0 {
		m.append(append(lost, m.unsure...)...) // as the watch brings them again
	}
	m.forgetAgain()
}

// restored compares what targets get with the list.
func (m *model) restored(end uint64) {
	m.t.Helper()
	last, at := map[string]uint64{}, map[string]uint64{}
	for _, l := range m.log {
		if key := keyOf(&l.event); !l.event.Op.Control() {
			last[key], at[key] = l.event.ResourceVersion, l.seq
		}
	}
	maps.DeleteFunc(last, func(key string, _ uint64) bool { return m.forgottenAfter(key, at[key]) })
	for _, target := range []string{"core/configmaps", "core/secrets"} {
		at, err := m.j.Restore(m.t.Context(), target, func(e event.Event) {
			if e.ResourceVersion != last[keyOf(&e)] || e.Target != target {
				m.t.Errorf("step %d: %s ends at %d, want %d", m.steps, keyOf(&e), e.ResourceVersion, last[keyOf(&e)])
			}
			delete(last, keyOf(&e))
		})
		if seq, _ := strconv.ParseUint(string(at.Mark), 10, 64); err != nil || at.Void || seq > end {
			m.t.Errorf("step %d: checkpoint at %d, void: %t, %v; the log ends at %d", m.steps, seq, at.Void, err, end)
		}
	}
	m.findForgets(last)
	if len(last) > 0 {
		m.t.Errorf("step %d: not restored: %v", m.steps, last)
	}
}

func keyOf(e *event.Event) string { return e.Target + " " + e.Namespace + " " + e.Name }

// finish has every sink read to the end, and compares what it has with the cluster.
func (m *model) finish() {
	m.t.Helper()
	m.disk.Set(disktest.Faults{})
	if m.j.Failure() != nil {
		m.crash(true)
	}
	for _, s := range m.sinks {
		if s.c == nil {
			s.open()
		}
		for range 3 {
			must(m.t, journal.SyncAll(m.t.Context(), m.j))
			for more := true; more; {
				more = s.read(50) > 0
			}
			s.commit()
		}
		if _, first := journal.Position(s.c); first {
			m.t.Errorf("%s: the first snapshot has no end", s.name)
		}
		since := map[string]bool{}
		for _, l := range m.log {
			since[keyOf(&l.event)] = since[keyOf(&l.event)] || !s.now || l.seq > s.start
		}
		for key, e := range m.objects {
			if m.forgotten[key] {
				continue // a sink may have it or not
			}
			row, has := s.rows[key]
			if exists := !e.Op.Ends(); has && !exists || !has && exists && since[key] || has && since[key] && row.ResourceVersion != e.ResourceVersion {
				m.t.Errorf("%s: %s is %s at %d, and the sink has it: %t, at %d", s.name, key, e.Op, e.ResourceVersion, has, row.ResourceVersion)
			}
		}
	}
}
