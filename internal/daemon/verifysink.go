package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// catchUp is how long a comparison waits for a sink that is behind, catchUpPoll how
	// often it looks.
	catchUp     = 30 * time.Second
	catchUpPoll = 50 * time.Millisecond
	// maxExamples bounds the objects that a comparison names.
	maxExamples = 20
)

// VerifySink implements [admin.Operator]. It takes what the targets have announced, waits
// until the sink has delivered that, and then reads the destination: what this holds of an
// object must be that event or a later one.
func (o operator) VerifySink(ctx context.Context, name string) (admin.SinkVerdict, error) {
	p, err := o.pipeline()
	if err != nil {
		return admin.SinkVerdict{}, err
	}
	one, err := o.sink(name)
	if err != nil {
		return admin.SinkVerdict{}, err
	}
	holder, ok := one.config.Options.(sink.Holder)
	if !ok {
		return admin.SinkVerdict{}, admin.Unknown("the destination of sink %s, of type %s, cannot be read; that of a postgres sink, or of a nats sink with jetstream: true, can", name, one.config.Type)
	}
	v := newSinkCheck(p, one)
	known := p.manager.Known(ctx)
	if err := v.delivered(ctx); err != nil {
		return admin.SinkVerdict{}, err
	}
	v.expect(known)
	env := sink.Env{Name: name, Cluster: o.daemon.config.Cluster, Logger: p.logger}
	if err := holder.Holds(ctx, env, v.take); err != nil {
		return admin.SinkVerdict{}, fmt.Errorf("read what sink %s holds: %w", name, err)
	}
	return v.finish(), nil
}

// sinkCheck compares a destination with what was announced.
type sinkCheck struct {
	pipeline *pipeline
	delivery *delivery
	verdict  admin.SinkVerdict
	// whole: the sink gets every state of every object that its route selects.
	whole bool
	// partial: ops of a match lacks deleted or left. Then a deleted object may be there.
	partial bool
	// expected are the objects that exist, by key.
	expected map[string]*expectation
	// upTo is up to where a target has announced everything, by its name.
	upTo map[string]revision
}

type expectation struct {
	uid  string
	at   revision
	seen bool
	// routed: the sink gets the object.
	routed bool
}

type revision struct{ epoch, rv uint64 }

func (r revision) before(other revision) bool {
	return r.epoch < other.epoch || r.epoch == other.epoch && r.rv < other.rv
}

func newSinkCheck(p *pipeline, d *delivery) *sinkCheck {
	v := &sinkCheck{
		pipeline: p, delivery: d, verdict: admin.SinkVerdict{Sink: d.config.Name}, whole: d.config.Start != config.StartNow,
		expected: make(map[string]*expectation), upTo: make(map[string]revision),
	}
	for _, m := range d.config.Match {
		v.partial = v.partial || lacks(m, event.Op.Ends)
		if lacks(m, func(op event.Op) bool { return !op.Control() }) || m.Condition != "" || len(m.Changed) > 0 {
			v.whole = false
		}
	}
	switch {
	case v.whole:
	case v.partial:
		v.verdict.Error = "nothing was compared: ops of this sink lacks deleted or left; add both, or remove ops"
	default:
		v.verdict.Note = "start, ops, condition or changed filter events of this sink: informd did not compare states; it looked for objects that the sink should not hold"
	}
	return v
}

// lacks reports whether ops of a match leaves out an operation of a kind.
func lacks(m config.Match, kind func(event.Op) bool) bool {
	return len(m.Ops) > 0 && slices.ContainsFunc(event.Ops(), func(op event.Op) bool {
		return kind(op) && !slices.Contains(m.Ops, string(op))
	})
}

// delivered waits until the sink has delivered what the journal holds now.
func (v *sinkCheck) delivered(ctx context.Context) error {
	until := v.pipeline.store.Stats().LastSeq
	var s deliver.Status
	err := wait.PollUntilContextTimeout(ctx, catchUpPoll, catchUp, true, func(context.Context) (bool, error) {
		s = v.delivery.Status()
		return v.pipeline.store.Stats().LastSeq-s.LagEvents >= until, nil
	})
	if err != nil {
		return fmt.Errorf("sink %s is %d events behind and %s: compare when it has caught up; its last error: %q", s.Name, s.LagEvents, s.State, s.LastError)
	}
	return nil
}

// expect notes the objects that exist, and which of them go to the sink.
func (v *sinkCheck) expect(known []dynwatch.Known) {
	for i := range known {
		k := &known[i]
		if k.Err != nil {
			v.verdict.Error = cmp.Or(v.verdict.Error, display.Reason(fmt.Sprintf("target %s: %v", k.Target, k.Err)))
			continue
		}
		v.upTo[k.Target] = revision{k.Epoch, k.ResourceVersion}
		for j := range k.Objects {
			one := &k.Objects[j]
			e := event.Event{Op: event.Modified, Group: k.Group, Resource: k.Resource, Namespace: one.Namespace, Name: one.Name}
			v.expected[k.Key(one)] = &expectation{
				uid: one.UID, at: revision{one.Epoch, one.ResourceVersion}, routed: v.delivery.setup.Route.Admits(&e),
			}
		}
	}
}

// take compares what the destination holds of one object.
func (v *sinkCheck) take(h event.Event) error {
	e := event.Event{Op: event.Modified, Group: h.Group, Resource: h.Resource, Namespace: h.Namespace, Name: h.Name}
	at := revision{h.Epoch, h.ResourceVersion}
	if !h.Op.Ends() {
		v.verdict.Objects++
	}
	want := v.expected[e.Key()]
	switch {
	case want == nil:
		upTo, ok := v.upTo[event.GroupOrCore(h.Group)+"/"+h.Resource]
		if !ok {
			upTo, ok = v.upTo[event.GroupOrCore(h.Group)+"/"+h.Resource+"@"+h.Namespace]
		}
		if ok && !v.partial && !h.Op.Ends() && !upTo.before(at) && v.pipeline.store.Watches(&e) {
			v.differs(e.Subject(), "the sink holds it as existing; it does not exist", &h, nil)
		}
	case want.seen || !v.whole || !want.routed:
		want.seen = true
	default:
		want.seen = true
		switch {
		case want.at.before(at):
		case h.Op.Ends():
			v.differs(e.Subject(), "the sink holds it as deleted; it exists", &h, want)
		case at.before(want.at):
			v.differs(e.Subject(), "the sink holds an older state", &h, want)
		case h.UID != want.uid:
			v.differs(e.Subject(), "the sink holds another object of this name", &h, want)
		}
	}
	return nil
}

// differs counts an object of which the destination holds something else than was
// announced; nil is none.
func (v *sinkCheck) differs(object, problem string, held *event.Event, announced *expectation) {
	if v.verdict.Divergences++; len(v.verdict.Examples) >= maxExamples {
		return
	}
	d := admin.SinkDivergence{Object: object, Problem: problem}
	if held != nil {
		d.Held = &admin.ObjectState{UID: held.UID, Epoch: held.Epoch, ResourceVersion: held.ResourceVersion, Deleted: held.Op.Ends()}
	}
	if announced != nil {
		d.Announced = &admin.ObjectState{UID: announced.uid, Epoch: announced.at.epoch, ResourceVersion: announced.at.rv}
	}
	v.verdict.Examples = append(v.verdict.Examples, d)
}

// finish is called when the destination was read to its end.
func (v *sinkCheck) finish() admin.SinkVerdict {
	for _, key := range slices.Sorted(maps.Keys(v.expected)) {
		if want := v.expected[key]; !want.seen && v.whole && want.routed {
			v.differs(key, "the sink does not hold it; it exists", nil, want)
		}
	}
	if v.verdict.Divergences > 0 {
		v.pipeline.logger.Warn("sink verification found divergence; run informd resnapshot --sink",
			"sink", v.verdict.Sink, "count", v.verdict.Divergences)
	}
	return v.verdict
}
