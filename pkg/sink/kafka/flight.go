package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/informd/informd/pkg/event"
)

// waveBytes is how much is on its way at a time, before compression: less than what
// a topic takes in one batch by default (1 MiB), because Kafka refuses a batch as a
// whole. A larger record goes by itself.
const waveBytes = 900 << 10

// delivery is one event on its way: its record, and the tombstone behind it.
type delivery struct {
	id    string
	topic string
	key   string
	bad   error // why the event can have no record
	parts []*part
}

// part is one record of a delivery.
type part struct {
	tombstone bool
	held      bool // the brokers have it
	// alone: it was refused together with others, and has to show whether it is at fault.
	alone bool
	size  int
	err   error // of the last attempt; the client's until the wave is done, as is at
	at    place
}

func (s *producer) newDelivery(e *event.Event) delivery {
	d := delivery{id: e.ID, key: keyOf(e), parts: []*part{{}}}
	d.topic, d.bad = s.pattern.topicOf(e)
	if s.tombstones && d.bad == nil && e.Op == event.Deleted {
		d.parts = append(d.parts, &part{tombstone: true})
	}
	return d
}

func (d *delivery) held() bool {
	for _, p := range d.parts {
		if !p.held {
			return false
		}
	}
	return true
}

// flight is one batch on its way, in waves.
type flight struct {
	producer   *producer
	batch      []event.Event
	deliveries []delivery
	// limit: batch[:limit] is to be delivered. What is at limit never can be, for
	// the reason that refused gives, but its tombstone still goes: the object is
	// gone all the same.
	limit   int
	refused error
}

// send delivers the batch up to the first event that fails, and returns how many
// are held.
func (f *flight) send(ctx context.Context) (int, error) {
	for {
		next, err := f.next(ctx)
		if err != nil {
			return f.held(), err
		}
		if len(next.parts) == 0 {
			return f.limit, f.refused
		}
		if err := f.producer.produce(ctx, next.parts, next.records); err != nil {
			return f.held(), err
		}
		if err := f.judge(next); err != nil {
			return f.held(), err
		}
	}
}

// selection is what goes into the next wave.
type selection struct {
	parts   []*part
	records []*kgo.Record
	events  []int           // whose parts they are
	keys    map[string]bool // of the records
	size    int
}

// next selects what may be sent now: nothing of an object of which something before
// is not held. Events keep their order, also those of different objects; only a
// tombstone, which is behind its deletion, waits until the next wave, so that many
// deletions take two waves. Nothing is selected when all is done.
func (f *flight) next(ctx context.Context) (selection, error) {
	chosen := selection{keys: map[string]bool{}}
	for i := 0; i < len(f.deliveries) && i <= f.limit; i++ {
		d := &f.deliveries[i]
		if d.bad != nil && i < f.limit {
			f.refuse(i, d.bad)
		}
		for _, p := range d.parts {
			if p.held || i == f.limit && !p.tombstone || p.tombstone && chosen.keys[d.key] {
				continue
			}
			if more, err := f.add(ctx, &chosen, i, p); !more || err != nil {
				return chosen, err
			}
		}
	}
	return chosen, nil
}

// add puts a part into the wave if it may go with what is there, and says whether
// the wave takes more.
func (f *flight) add(ctx context.Context, chosen *selection, i int, p *part) (more bool, err error) {
	d, first := &f.deliveries[i], len(chosen.parts) == 0
	_, known := f.producer.known[d.topic]
	switch {
	case !first && (chosen.keys[d.key] || p.alone || !known): // a missing topic does not hold up what is before it
		return false, nil
	case !known:
		if err := f.producer.ensure(ctx, d.topic); err != nil {
			return false, err
		}
	}
	record := f.record(i, p)
	if !first && chosen.size+p.size > waveBytes {
		return false, nil
	}
	chosen.parts = append(chosen.parts, p)
	chosen.records = append(chosen.records, record)
	chosen.events = append(chosen.events, i)
	chosen.keys[d.key] = true
	chosen.size += p.size
	return !p.alone, nil
}

func (f *flight) record(i int, p *part) *kgo.Record {
	d := &f.deliveries[i]
	record := &kgo.Record{Topic: d.topic, Key: []byte(d.key)} // a tombstone, after which compaction forgets the key
	if !p.tombstone {
		record = newRecord(&f.batch[i], d.topic, d.key, f.producer.structured)
	}
	p.size = sizeOf(record)
	return record
}

// judge looks at a wave that is done. It returns the first failure that passes.
func (f *flight) judge(done selection) error {
	for k, p := range done.parts {
		d := &f.deliveries[done.events[k]]
		switch {
		case p.held:
		case !tooLarge(p.err) && !refuses(p.err):
			return explain(p.err, d.topic)
		case len(done.parts) > 1:
			p.alone = true
		case tooLarge(p.err):
			f.refuse(done.events[k], refusal(p.err, p.size, d.topic))
		default:
			return explainRecord(p.err, d.topic)
		}
	}
	return nil
}

// refuse ends the batch before an event that can never be delivered.
func (f *flight) refuse(i int, why error) { f.limit, f.refused = i, why }

// held counts the leading events that the brokers have.
func (f *flight) held() int {
	n := 0
	for n < f.limit && f.deliveries[n].held() {
		n++
	}
	return n
}
