package wal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// The number of crashes of one run of a model, and of runs by default. INFORMD_WAL_SEEDS sets the
// latter: 2,000 are 100,000 crashes. INFORMD_WAL_SEED runs one.
const (
	lives = 50
	seeds = 30
)

// item is one appended record of the model.
type item struct {
	event *event.Event // nil for others
	seq   uint64
	hard  bool
	// Others: the value of a name, a letter, a dropped letter, or a forgotten object.
	kind  record.Kind
	of    event.Event
	name  string
	value string
}

// model is a log beside a list of what was appended to it.
type model struct {
	t      *testing.T
	seed   uint64
	rand   *rand.Rand
	disk   *disktest.Disk
	log    *wal.Log
	boot   int
	items  []item
	events map[uint64]*event.Event // of items, by sequence
	// Acked is how many items a process has returned from, and durable how many a power loss must
	// leave.
	acked, durable int
	number         int // makes values unique
	ended          map[string]bool
	// Seen has the event of each sequence that was ever used, and gone what a policy let go.
	seen     map[uint64]string
	gone     map[uint64]bool
	dataGone map[uint64]bool
	next     uint64 // of a reader
	history  []string
}

func (m *model) fatalf(format string, args ...any) {
	m.t.Helper()
	for _, line := range m.history[max(0, len(m.history)-40):] {
		m.t.Log(line)
	}
	m.t.Fatalf("seed %d: %s", m.seed, fmt.Sprintf(format, args...))
}

func (m *model) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func TestCrashes(t *testing.T) {
	from, n := uint64(0), uint64(seeds)
	if text := os.Getenv("INFORMD_WAL_SEEDS"); text != "" {
		n, _ = strconv.ParseUint(text, 10, 64)
	}
	if text := os.Getenv("INFORMD_WAL_SEED"); text != "" {
		from, _ = strconv.ParseUint(text, 10, 64)
		n = 1
	}
	var crashes atomic.Int64
	t.Run("all", func(t *testing.T) {
		for worker := range uint64(2) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for seed := from + worker; seed < from+n; seed += 2 {
					runModel(t, seed, &crashes)
				}
			})
		}
	})
	t.Logf("%d crashes", crashes.Load())
}

func runModel(t *testing.T, seed uint64, crashes *atomic.Int64) {
	m := &model{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 7)), disk: disktest.New(seed), next: 1,
		events: map[uint64]*event.Event{}, ended: map[string]bool{}, seen: map[uint64]string{}, gone: map[uint64]bool{}, dataGone: map[uint64]bool{},
	}
	for range lives {
		m.open()
		m.live()
		crashes.Add(1)
	}
	m.open()
	m.log.Abandon()
}

// open opens the log, through some crashes, and compares it with the model.
func (m *model) open() {
	for {
		if m.rand.IntN(3) == 0 {
			m.disk.Set(disktest.Faults{PowerAfter: 1 + m.rand.IntN(30)})
		}
		var err error
		m.log, err = wal.Open(m.disk, m.options())
		m.disk.Set(disktest.Faults{})
		if err == nil {
			break
		}
		if !errors.Is(err, disktest.ErrPowerLost) {
			m.fatalf("open: %v", err)
		}
		m.note("power loss in open")
		m.disk.Restart()
		m.boot++
		m.acked = m.durable
	}
	if m.log.Void {
		m.fatalf("a loss is declared without damage")
	}
	m.compare()
}

func (m *model) options() wal.Options {
	o := options()
	o.SegmentBytes, o.TailBytes, o.Boot = 2<<10, 3<<10, fmt.Sprint(m.boot)
	return o
}

// live works with the log until it crashes.
func (m *model) live() {
	f := disktest.Faults{}
	switch m.rand.IntN(10) {
	case 0: // a kill or a clean end below
	case 1:
		failing := m.rand.IntN(10)
		var syncs atomic.Int64
		f.SyncFails = func(string) bool { return int(syncs.Add(1)) > failing }
	default:
		f.PowerAfter = 1 + m.rand.IntN(80)
	}
	m.disk.Set(f)
	for range 5 + m.rand.IntN(60) {
		if err := m.step(); err != nil {
			m.note("error: %v", err)
			break
		}
	}
	power := m.rand.IntN(2) == 0
	if m.rand.IntN(3) == 0 {
		m.note("close")
		if m.log.Close(m.t.Context()) == nil {
			m.durable = len(m.items)
		}
	} else {
		m.log.Abandon()
	}
	if _, err := m.disk.Names(); err != nil || power {
		m.note("power loss")
		m.disk.PowerLoss()
		m.disk.Restart()
		m.boot++
		m.acked = m.durable
	} else {
		m.note("end of the process")
		m.disk.Set(disktest.Faults{})
	}
}

func (m *model) step() error {
	switch n := m.rand.IntN(20); {
	case n < 10:
		return m.append()
	case n < 13:
		kind := []record.Kind{record.Mark, record.Cursor, record.Binding}[m.rand.IntN(3)]
		i := item{kind: kind, name: fmt.Sprint("name", m.rand.IntN(3)), value: m.unique()}
		return m.put(i, func() error { return m.log.Writer.Put(i.kind, i.name, []byte(i.value)) }, false)
	case n < 14:
		i := item{kind: record.Letter, name: fmt.Sprint("sink", m.rand.IntN(2)), value: m.unique()}
		return m.put(i, func() error { return m.log.Letters.Put(m.t.Context(), i.name, []byte(i.value)) }, true)
	case n < 15 && m.rand.IntN(2) == 0:
		return m.drop()
	case n < 15:
		return m.forget()
	case n < 16:
		err := m.log.Syncer.Sync(m.t.Context())
		m.note("sync: %v", err)
		if err == nil {
			m.durable = len(m.items)
		}
		return err
	case n < 17:
		return m.compact()
	default:
		return m.read()
	}
}

func (m *model) unique() string {
	m.number++
	return fmt.Sprint("value", m.number)
}

func (m *model) put(i item, put func() error, syncs bool) error {
	m.items = append(m.items, i)
	err := put()
	m.note("put %d %s %s: %v", i.kind, i.name, i.value, err)
	if err == nil {
		m.acked = len(m.items)
		if syncs {
			m.durable = m.acked
		}
	}
	return err
}

func (m *model) drop() error {
	name := fmt.Sprint("sink", m.rand.IntN(2))
	var list []uint64
	before := len(m.items)
	err := m.log.Letters.Each(m.t.Context(), name, func(number uint64, text []byte) error {
		if m.rand.IntN(2) == 0 {
			list, m.items = append(list, number), append(m.items, item{kind: record.LetterDropped, name: name, value: string(text)})
		}
		return nil
	})
	if err != nil {
		m.cut(before)
		return err
	}
	err = m.log.Letters.Drop(m.t.Context(), name, list...)
	m.note("drop %v of %s: %v", list, name, err)
	if err == nil {
		m.acked, m.durable = len(m.items), len(m.items)
	}
	return err
}

// forget has the log forget some objects, whether it knows them or not.
func (m *model) forget() error {
	var objects []event.Event
	for range 1 + m.rand.IntN(3) {
		of := m.object(m.rand.IntN(2), m.rand.IntN(8))
		objects, m.items = append(objects, of), append(m.items, item{kind: record.Forgotten, of: of})
	}
	err := m.log.Writer.Forget(m.t.Context(), objects)
	m.note("forget %d: %v", len(objects), err)
	if err == nil {
		m.acked = len(m.items)
	}
	return err
}

// object is an event of an object of a target.
func (m *model) object(target, number int) event.Event {
	e := object(fmt.Sprint("o", number), event.Modified, uint64(m.number))
	e.Resource, e.Target = fmt.Sprint("r", target), fmt.Sprint("target", target)
	return e
}

func (m *model) append() error {
	var events []event.Event
	next := m.log.Keys.Last() + 1
	before := len(m.items)
	for i := range 1 + m.rand.IntN(4) {
		e := m.event()
		seq := next + uint64(i)
		if was, used := m.seen[seq]; used {
			m.fatalf("sequence %d of %s is used again", seq, was)
		}
		m.seen[seq] = e.ID
		events = append(events, e)
		kept := e
		kept.Data = slices.Clone(e.Data)
		m.events[seq] = &kept
		m.items = append(m.items, item{event: &kept, seq: seq, hard: hard(&e)})
	}
	ctx := m.t.Context()
	if m.rand.IntN(50) == 0 { // a full disk, for a moment
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		used := uint64(0)
		names, err := m.disk.Names()
		for _, name := range names {
			used += uint64(len(m.disk.Content(name)))
		}
		if err == nil {
			m.disk.Set(disktest.Faults{Size: used + uint64(m.rand.IntN(600))})
		}
	}
	err := m.log.Writer.Append(ctx, events)
	m.note("append %d at %d: %v", len(events), next, err)
	for i := range events {
		clear(events[i].Data) // the log must have copied it
	}
	if ctx != m.t.Context() {
		m.disk.Set(disktest.Faults{})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		left := before + int(m.log.Keys.Last()+1-next)
		for _, i := range m.items[left:] {
			delete(m.seen, i.seq)
		}
		m.cut(left)
		err = nil
	}
	if err == nil {
		m.acked = len(m.items)
	}
	return err
}

func (m *model) event() event.Event {
	m.number++
	if m.rand.IntN(10) == 0 {
		e := event.Event{
			ID: fmt.Sprint("control", m.number), Cluster: "c", Target: fmt.Sprint("target", m.rand.IntN(2)),
			Op: []event.Op{event.Begin, event.Synced, event.State}[m.rand.IntN(3)],
		}
		return e
	}
	target := m.rand.IntN(2)
	e := m.object(target, m.rand.IntN(8))
	key := fmt.Sprint(target, e.Name)
	switch {
	case m.ended[key]:
		e.Op = event.Added
	case m.rand.IntN(5) == 0:
		e.Op = event.Deleted
	}
	m.ended[key] = e.Op == event.Deleted
	e.ID = fmt.Sprint("event", m.number)
	e.Time = time.UnixMicro(int64(m.number)).UTC()
	e.Data = append([]byte(e.ID), make([]byte, m.rand.IntN(300))...)
	return e
}

func hard(e *event.Event) bool { return e.Op == event.Added || e.Op == event.Begin }

// read reads what is readable, from the tail or from files.
func (m *model) read() error {
	to := m.log.Barrier.Readable()
	reader := m.log.History.NewReader(m.next)
	defer reader.Close()
	for m.next <= to {
		entries, behind := m.log.Tail.Read(m.next, m.log.Keys.Last(), 1+m.rand.IntN(5))
		if behind || len(entries) > 0 && m.rand.IntN(3) == 0 {
			var err error
			reader.Close()
			reader = m.log.History.NewReader(m.next)
			if entries, err = reader.Next(to, 1+m.rand.IntN(5)); err != nil {
				return err
			}
		}
		if len(entries) == 0 {
			break
		}
		for i := range entries {
			m.check(&entries[i])
			m.next = entries[i].Seq + 1
		}
	}
	for i := range m.items {
		if m.items[i].hard && m.items[i].seq <= to {
			m.durable = max(m.durable, i+1)
		}
	}
	m.note("read up to %d", to)
	return nil
}

// cut removes the items behind n.
func (m *model) cut(n int) {
	for _, i := range m.items[n:] {
		delete(m.events, i.seq)
	}
	m.items = m.items[:n]
}

// check compares an event with what was appended under its sequence.
func (m *model) check(e *wal.Entry) {
	want := m.events[e.Seq]
	if want == nil {
		m.fatalf("event %s at %d was not appended, or was lost before", e.Event.ID, e.Seq)
	}
	data := string(e.Event.Data) == string(want.Data) || len(e.Event.Data) == 0 && m.dataGone[e.Seq]
	if e.Event.ID != want.ID || e.Event.Op != want.Op || e.Event.Name != want.Name || e.Event.ResourceVersion != want.ResourceVersion || !data {
		m.fatalf("event at %d is %+v, want %+v", e.Seq, e.Event, want)
	}
}
