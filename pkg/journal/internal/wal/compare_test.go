package wal_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// policy keeps some events of each key, and ended objects up to a sequence.
type policy struct {
	*model

	passed  uint64
	history uint32
}

func (p *policy) Fate(e *segment.Entry, last wal.Last, _ string) wal.Fate {
	switch {
	case last.IsEvent(e.Seq) && (!e.Flags.Has(record.Ends) || e.Seq > p.passed):
		return wal.Keep
	case last.IsEvent(e.Seq) || last.Count-e.Count >= p.history:
		p.gone[e.Seq] = true
		return wal.Drop
	case e.Count%3 == 0:
		p.dataGone[e.Seq] = true
		return wal.DropData
	}
	return wal.Keep
}

func (*policy) Dropped(*segment.Entry, string) {}

func (m *model) compact() error {
	p := &policy{model: m, history: 1 + m.rand.Uint32N(4)}
	if m.rand.IntN(2) == 0 {
		p.passed = m.log.Keys.Last()
	}
	err := m.log.Compactor.Compact(p, int64(50+m.rand.IntN(2)*50))
	m.note("compact up to %d, %d each: %v", p.passed, p.history, err)
	return err
}

// compare finds how many items are left after a start, and checks everything against them.
func (m *model) compare() {
	l := m.log
	there := map[uint64]bool{}
	reader := l.History.NewReader(1)
	defer reader.Close()
	all, err := reader.Next(l.Barrier.Readable(), 1<<30)
	if err != nil {
		m.fatalf("read all: %v", err)
	}
	last := uint64(0)
	for i := range all {
		if all[i].Seq <= last {
			m.fatalf("%d follows %d", all[i].Seq, last)
		}
		last = all[i].Seq
		there[last] = true
	}
	left := 0 // items, at least
	for i := range m.items {
		if m.items[i].event != nil && there[m.items[i].seq] {
			left = i + 1
		}
	}
	if left < m.acked {
		left = m.acked
	}
	for i := range m.items[:left] {
		if e := m.items[i]; e.event != nil && !there[e.seq] && !m.gone[e.seq] {
			m.fatalf("event %d is lost, of %d to %d", e.seq, left, len(m.items))
		}
	}
	most := left
	for most < len(m.items) && (m.items[most].event == nil || m.gone[m.items[most].seq]) {
		most++
	}
	problem := ""
	for n := most; n >= left; n-- {
		if problem = m.differs(m.items[:n]); problem == "" {
			m.note("%d of %d items are left, last %d", n, len(m.items), l.Keys.Last())
			m.cut(n)
			m.acked, m.durable = n, n // Open has synced
			for i := range all {
				m.check(&all[i])
			}
			m.compareHoles(there)
			m.next = 1
			return
		}
	}
	m.fatalf("with %d to %d of %d items: %s", left, most, len(m.items), problem)
}

// compareHoles checks that the log knows which sequences were never used, or lost.
func (m *model) compareHoles(there map[uint64]bool) {
	for seq := range m.seen {
		if seq <= m.log.Keys.Last() && !there[seq] && !m.gone[seq] && m.log.Skipped(seq, seq) != 1 {
			m.fatalf("sequence %d is neither there nor skipped", seq)
		}
	}
	m.ended = map[string]bool{}
	for i := range m.items {
		if e := m.items[i].event; e != nil {
			m.ended[e.Target[len("target"):]+e.Name] = e.Op.Ends()
		}
	}
}

// differs says how the log differs from these items, except for their events that are no last ones.
func (m *model) differs(items []item) string {
	values, letters, lasts := map[string]string{}, map[string][]string{}, map[string]*item{}
	for i := range items {
		switch one := &items[i]; {
		case one.event != nil && one.event.Op.Control():
			lasts[string(one.event.Op)+" of "+one.event.Target] = one
		case one.event != nil:
			lasts[one.event.Target+" "+one.event.Name] = one
		case one.kind == record.Forgotten:
			key := one.of.Target + " " + one.of.Name
			if last := lasts[key]; last != nil && last.event != nil && !last.event.Op.Ends() {
				lasts[key] = one
			}
		case one.kind == record.Letter:
			letters[one.name] = append(letters[one.name], one.value)
		case one.kind == record.LetterDropped:
			letters[one.name] = slices.DeleteFunc(slices.Clone(letters[one.name]), func(text string) bool { return text == one.value })
		default:
			values[fmt.Sprint(one.kind, one.name)] = one.value
		}
	}
	got := map[string]string{}
	for _, kind := range []record.Kind{record.Mark, record.Cursor, record.Binding} {
		for _, n := range m.log.Keys.All(kind) {
			got[fmt.Sprint(kind, n.Name)] = string(n.Value)
			if n.Kind == record.Mark && n.Seq < m.log.Damage {
				return n.Name + " is void"
			}
		}
	}
	if !maps.Equal(got, values) {
		return fmt.Sprintf("values %v, want %v", got, values)
	}
	for _, name := range []string{"sink0", "sink1"} {
		var texts []string
		err := m.log.Letters.Each(m.t.Context(), name, func(_ uint64, text []byte) error {
			texts = append(texts, string(text))
			return nil
		})
		if err != nil || !slices.Equal(texts, letters[name]) {
			return fmt.Sprintf("letters of %s are %v, want %v, %v", name, texts, letters[name], err)
		}
	}
	return m.differInLasts(lasts)
}

func (m *model) differInLasts(lasts map[string]*item) string {
	got := map[string]string{}
	for _, target := range []string{"target0", "target1"} {
		err := m.log.History.EachLast(target, func(e event.Event) {
			if e.Target != target {
				m.fatalf("%s has %+v", target, e)
			}
			if got[e.Target+" "+e.Name] != "" {
				m.fatalf("two last events of %s", e.Name)
			}
			got[e.Target+" "+e.Name] = e.ID
		})
		if err != nil {
			return err.Error()
		}
	}
	for key, i := range lasts {
		if i.kind == record.Forgotten {
			if e, err := m.log.History.LastOf(&i.of); !errors.Is(err, wal.ErrGone) || got[key] != "" {
				return fmt.Sprintf("%s was forgotten, and its last event is %s or %q, %v", key, e.Event.ID, got[key], err)
			}
			continue
		}
		id, control := got[key], i.event.Op.Control()
		delete(got, key)
		passed := i.event.Op.Ends() && m.gone[i.seq]
		e, err := m.log.History.LastOf(i.event)
		switch {
		case passed && errors.Is(err, wal.ErrGone) && id == "":
		case err != nil:
			return fmt.Sprintf("last event of %s, %s at %d: %v", key, i.event.ID, i.seq, err)
		case e.Event.ID != i.event.ID || !control && id != i.event.ID || string(e.Event.Data) != string(i.event.Data):
			return fmt.Sprintf("last event of %s is %s or %q, want %s", key, e.Event.ID, id, i.event.ID)
		}
	}
	for key := range got {
		return key + " was not appended"
	}
	return ""
}
