package journal_test

import (
	"maps"
	"slices"

	"github.com/informd/informd/pkg/event"
)

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
