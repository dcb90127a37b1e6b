package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/informer/informertest"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/file"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/webhook"
)

// TestRefillRepeatsWhatFailed: a resource that cannot be announced at the moment, such as
// one that is not served, has no other resource announced again and again. A wildcard without
// a resource holds up none.
func TestRefillRepeatsWhatFailed(t *testing.T) {
	d := new(destination)
	errWaiting := fmt.Errorf("%w: example.com/things: the target is waiting", errTargets)
	fails := true
	var asked []string
	attempt := func() error {
		return d.refillAll([]string{"*.example.com/*", "core/configmaps", "example.com/things", "core/pods"}, func(resource string) error {
			asked = append(asked, resource)
			if resource == "*.example.com/*" {
				return fmt.Errorf("%w: %s", dynwatch.ErrUnknownResource, resource)
			}
			if fails && resource == "example.com/things" {
				return errWaiting
			}
			return nil
		})
	}
	for range 2 {
		if err := attempt(); !errors.Is(err, errWaiting) {
			t.Errorf("error %v, want %v", err, errWaiting)
		}
	}
	fails = false
	if err := attempt(); err != nil {
		t.Error(err)
	}
	want := "[*.example.com/* core/configmaps example.com/things core/pods example.com/things example.com/things]"
	if got := fmt.Sprint(asked); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// TestDeclareToASinkWithoutGaps: a sink that gets no gap events counts as informed of its new
// destination. Otherwise the re-snapshot behind the gap event never begins.
func TestDeclareToASinkWithoutGaps(t *testing.T) {
	o := operatorOf(t, emptyJournal(t).DeadLetters("out"), func(_ context.Context, batch []event.Event) (int, error) {
		return len(batch), nil
	}, deliver.Match{Control: []event.Op{}})
	p := o.daemon.pipeline.Load()
	d, of := &destinations{pipeline: p, operator: o}, new(destination)
	if err := d.declare(t.Context(), p.delivery("out"), of, "S"); err != nil || !of.declared {
		t.Errorf("declared %t, %v", of.declared, err)
	}
}

// newCursor opens the cursor of the sink bus in a new journal.
func newCursor(t *testing.T) *journal.Cursor {
	t.Helper()
	c, err := emptyJournal(t).Open("bus", journal.FromNow)
	must(t, err)
	return c
}

// TestNoteOfADestination: a destination counts as complete until the cursor of its sink moves
// with another one, whether or not that has an identity. It does not matter whether the config
// changed while informd ran.
func TestNoteOfADestination(t *testing.T) {
	for name, tt := range map[string]struct {
		found []string // "" is a destination without an identity
		want  string
	}{
		"the first":                     {[]string{"S"}, "S"},
		"the same":                      {[]string{"S", "S"}, "S"},
		"replaced":                      {[]string{"S", "T"}, elsewhere},
		"without identity":              {[]string{""}, elsewhere},
		"to one without, and back":      {[]string{"S", "", "S"}, elsewhere},
		"to one that is not full, back": {[]string{"S", "T", "S"}, elsewhere},
		"from one without":              {[]string{"", "S"}, elsewhere},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %t", name, restarts), func(t *testing.T) {
				n := newCursor(t)
				d := notedDestinations(t, n)
				for _, identity := range tt.found {
					if restarts {
						d = notedDestinations(t, n)
					}
					d.reached("bus", identity)
				}
				if n.Note() != tt.want {
					t.Errorf("the note is %q, want %q", n.Note(), tt.want)
				}
			})
		}
	}
}

// notedDestinations are those of a process with the sink bus. They repeat nothing.
func notedDestinations(t *testing.T, n *journal.Cursor) *destinations {
	t.Helper()
	life, end := context.WithCancel(t.Context())
	end()
	runner, err := deliver.New(n, nil, deliver.Options{Name: "bus", Registerer: prometheus.NewRegistry()})
	must(t, err)
	p := &pipeline{all: []*delivery{{config: config.Sink{Name: "bus"}, Runner: runner}}}
	return &destinations{pipeline: p, life: life, end: end, sinks: make(map[string]*destination)}
}

// TestRefillOfALeftDestination: the sink has another destination before a refill is complete.
// The end of the refill does not count for that destination, nor for the first one later.
func TestRefillOfALeftDestination(t *testing.T) {
	n := newCursor(t)
	n.SetNote("S")
	d := notedDestinations(t, n)
	d.reached("bus", "T")
	left := d.sinks["bus"]
	d.reached("bus", "")
	d.complete("bus", left)
	if n.Note() != elsewhere {
		t.Errorf("the note is %q, want %q", n.Note(), elsewhere)
	}
	d.reached("bus", "T")
	d.complete("bus", d.sinks["bus"])
	if n.Note() != "T" {
		t.Errorf("the note is %q, want T", n.Note())
	}
}

// TestMoves: a reload warns of a destination that lacks earlier events and has no identity. One
// with an identity gets them by itself.
func TestMoves(t *testing.T) {
	archive := func(path string) config.Sink {
		return config.Sink{Type: "file", Options: &file.Config{Path: path}}
	}
	hook := func(url string) config.Sink {
		options := new(webhook.Config)
		options.URL = sink.NewSecret(url)
		return config.Sink{Type: "webhook", Options: options}
	}
	bus := func(prefix string, stream bool) config.Sink {
		return config.Sink{Type: "nats", Options: &nats.Config{SubjectPrefix: prefix, JetStream: stream}}
	}
	servers := func(addresses []string) (all connection.Servers) {
		for _, a := range addresses {
			all = append(all, sink.NewSecret(a))
		}
		return all
	}
	core := func(addresses ...string) config.Sink {
		return config.Sink{Type: "nats", Options: &nats.Config{SubjectPrefix: "a", Servers: servers(addresses)}}
	}
	brokers := func(topic string, addresses ...string) config.Sink {
		return config.Sink{Type: "kafka", Options: &kafka.Config{Topic: topic, Servers: servers(addresses)}}
	}
	output := config.Sink{Type: "stdout"}
	for name, tt := range map[string]struct {
		was, is config.Sink
		want    bool
	}{
		"the same file":          {archive("a"), archive("./a"), false},
		"another path":           {archive("a"), archive("b"), true},
		"the same url":           {hook("http://a/x"), hook("http://a/x"), false},
		"another url":            {hook("http://a/x"), hook("http://a/y"), true},
		"another type":           {archive("a"), hook("http://a/x"), true},
		"to standard output":     {archive("a"), output, true},
		"from a stream":          {bus("k8s", true), bus("k8s", false), true},
		"to a stream":            {archive("a"), bus("k8s", true), false},
		"another core subject":   {bus("a", false), bus("b", false), true},
		"another stream subject": {bus("a", true), bus("b", true), false},
		"another core server":    {core("a", "b"), core("a", "c"), true},
		"the same in turn":       {core("a", "b"), core("b", "a"), false},
		"with another login":     {core("nats://u:p@a"), core("nats://u:q@a"), false},
		"brokers of topics":      {brokers("k8s.{resource}", "a"), brokers("k8s.{resource}", "b"), true},
		"brokers of one topic":   {brokers("k8s", "a"), brokers("k8s", "b"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := moves(tt.was, tt.is); got != tt.want {
				t.Errorf("moves = %t, want %t", got, tt.want)
			}
		})
	}
}

// TestRefillOutlastsASinkThatIsDown: the sink is down when its destination, which was replaced,
// is to get every object. It counts as complete when it has them, not when they are pending.
func TestRefillOutlastsASinkThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, synced atomic.Bool
		write := writeFunc(func(_ context.Context, batch []event.Event) (int, error) {
			if !up.Load() {
				return 0, errors.New("connection refused")
			}
			for i := range batch {
				if batch[i].Op == event.Synced {
					synced.Store(true)
				}
			}
			return len(batch), nil
		})
		d, p := podsTo(t, write)
		<-time.After(time.Minute) // until it is known that Pods are forbidden
		refilled := make(chan error, 1)
		go func() { refilled <- newDestinations(p, d).refill(t.Context(), "core/pods", "out") }()
		<-time.After(time.Hour)
		if len(refilled) > 0 {
			t.Error("refill returned while the sink is down")
		}
		up.Store(true)
		if err := <-refilled; err != nil || !synced.Load() {
			t.Errorf("refilled: %v; the destination has every object: %t", err, synced.Load())
		}
	})
}

// podsTo makes a daemon that watches Pods, of an API server that does not allow it, and delivers to
// a sink "out". It ends with the test.
func podsTo(t *testing.T, write writeFunc) (*Daemon, *pipeline) {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	log, forbidding := emptyJournal(t), informertest.New()
	forbidding.Inject(informertest.Fault{Code: http.StatusForbidden})
	manager, err := dynwatch.New(dynwatch.Options{
		Cluster: "test", Kubernetes: forbidding.Config(), Log: log, RedactionKey: []byte("0123456789abcdef"), Logger: logger,
		Reject: func(context.Context, dynwatch.Rejected) error { return nil },
	})
	must(t, err)
	t.Cleanup(manager.Close)
	p := &pipeline{logger: logger, now: t.Context(), manager: manager, store: &clusterJournal{
		Journal: log, Durable: true,
	}}
	d := &Daemon{config: &config.Config{}, registry: prometheus.NewRegistry(), level: new(slog.LevelVar), logger: logger}
	d.pipeline.Store(p)
	route := newRoute(config.Sink{})
	one, err := p.newDelivery(d, config.Sink{Name: "out"}, deliver.Setup{
		Type: "fake", Lanes: 1, Route: route, Open: func(context.Context) (sink.Sink, error) { return write, nil },
	})
	must(t, err)
	p.all = []*delivery{one}
	// The sink is there first: else it begins with a snapshot, and a target that was not listed has none.
	must(t, manager.Apply([]dynwatch.Resource{{Resource: "pods"}}))
	ended := make(chan error, 1)
	go func() { ended <- one.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return d, p
}
