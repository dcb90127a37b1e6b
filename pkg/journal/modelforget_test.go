package journal_test

import (
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

// lostForgets returns the objects that the log may have forgotten or not, after a crash that has left it up to a
// sequence.
func (m *model) lostForgets(end uint64) (unsure map[string]bool) {
	unsure = map[string]bool{}
	m.forgets = slices.DeleteFunc(m.forgets, func(f logged) bool {
		if f.seq >= end {
			unsure[keyOf(&f.event)] = true
		}
		return f.seq >= end
	})
	return unsure
}

// forgetAgain repeats what may be lost, as the next comparison does.
func (m *model) forgetAgain(unsure map[string]bool) {
	for key := range unsure {
		if m.forgotten[key] {
			m.forgetKey(key)
		}
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
