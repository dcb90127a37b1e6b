package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/tail"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
)

// TestWatchedResource: an operator names a resource as kubectl does.
func TestWatchedResource(t *testing.T) {
	targets := []dynwatch.TargetStatus{
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "configmaps", Namespace: "a"},
		{Version: "v1", Resource: "configmaps", Namespace: "b"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Version: "v1", Resource: "events"},
		{Group: "events.k8s.io", Version: "v1", Resource: "events"},
	}
	for said, want := range map[string]string{
		"pods": "core/pods", "pods.core": "core/pods", "core/pods": "core/pods", "configmaps": "core/configmaps",
		"deployments": "apps/deployments", "deployments.apps": "apps/deployments", "deployments.v1.apps": "apps/deployments",
		"apps/deployments": "apps/deployments", "events": "core/events", "events.core": "core/events", "events.events.k8s.io": "events.k8s.io/events",
	} {
		if got, err := watchedResource(said, targets); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", said, got, err, want)
		}
	}
	for said, want := range map[string]string{
		"configmap":            `informd does not watch the resource "configmap" (did you mean "configmaps"?)`,
		"deployments.v2.apps":  `informd does not watch the resource "deployments.v2.apps" (did you mean "deployments.apps"?)`,
		"widgets.example.com":  `(watched resources: configmaps, deployments.apps, events, events.events.k8s.io, pods)`,
		"core/deploymentsmore": `informd does not watch the resource`,
	} {
		if _, err := watchedResource(said, targets); !errors.Is(err, admin.ErrUnknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", said, err, want)
		}
	}
}

// TestAmbiguousResource: a name of two groups is ambiguous if neither is the core group.
func TestAmbiguousResource(t *testing.T) {
	targets := []dynwatch.TargetStatus{{Group: "a.example.com", Version: "v1", Resource: "things"}, {Group: "b.example.com", Version: "v1", Resource: "things"}}
	const want = `the resource "things" is ambiguous: name one of things.a.example.com, things.b.example.com`
	if _, err := watchedResource("things", targets); !errors.Is(err, admin.ErrUnknown) || err.Error() != want {
		t.Errorf("%v; want %q", err, want)
	}
}

// TestUnknownSink: the error names the sink that was probably meant, else those there are.
func TestUnknownSink(t *testing.T) {
	for said, want := range map[string]string{
		"buss": `there is no sink "buss" (did you mean "bus"?)`,
		"x":    `there is no sink "x" (sinks: bus, hook)`,
	} {
		if err := unknownSink(said, []string{"bus", "hook"}); err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTailOfWhatIsNotWatched: a tail of a resource that no target has is refused, with the name that was meant.
func TestTailOfWhatIsNotWatched(t *testing.T) {
	targets := []dynwatch.TargetStatus{{Version: "v1", Resource: "pods"}, {Group: "apps", Version: "v1", Resource: "deployments"}}
	for said, want := range map[string]string{
		"": "", "pods": "", "*.apps": "", "deployments.apps": "", "deployments.v1.apps": "", "deployments": "",
		"zebras.example.com": "(watched resources: deployments.apps, pods)",
		"pod":                `did you mean "pods"`, "deployment.apps": `did you mean "deployments.apps"`,
	} {
		wants, err := tail.Filter{Resource: said}.Compile()
		must(t, err)
		if err := checkWatched(wants, targets); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", said, err, want)
		}
		if err := checkWatched(wants, nil); err != nil {
			t.Errorf("%q, before there are targets: %v", said, err)
		}
	}
}

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// emptyJournal opens an empty journal in a directory of the test, until the test ends.
func emptyJournal(t testing.TB) *journal.Journal {
	t.Helper()
	j, err := journal.OpenTemporary(t.TempDir(), journal.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { _ = j.Close() }) // the test may have closed it
	return j
}

// writeFunc is a sink that only writes.
type writeFunc func(ctx context.Context, batch []event.Event) (int, error)

func (f writeFunc) Write(ctx context.Context, batch []event.Event) (int, error) { return f(ctx, batch) }
func (f writeFunc) Close(context.Context) error                                 { return nil }

// operatorOf returns the operator of a running sink "out" with its dead letters in box.
func operatorOf(t *testing.T, box deliver.Box, write writeFunc, only ...deliver.Match) operator {
	t.Helper()
	route := deliver.NewRoute(only, true)
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	j := emptyJournal(t)
	p := &pipeline{
		logger: logger, store: &clusterJournal{Journal: j},
		source: deliver.NewDeadLetters(config.SourceName, j.DeadLetters(config.SourceName)),
	}
	cursor, err := j.Open("out", journal.FromSnapshot)
	must(t, err)
	one, err := deliver.New(cursor, func() uint64 { return j.Stats().LastSeq }, deliver.Options{
		Name: "out", DeadLetters: deliver.NewDeadLetters("out", box), Logger: logger, Registerer: prometheus.NewRegistry(),
		Setup: deliver.Setup{Type: "fake", Lanes: 1, Route: route, Open: func(context.Context) (sink.Sink, error) { return write, nil }},
	})
	must(t, err)
	p.all = []*delivery{{config: config.Sink{Name: "out"}, Runner: one}}
	d := &Daemon{}
	d.pipeline.Store(p)
	ended := make(chan error, 1)
	go func() { ended <- one.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := one.Drain(within); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return operator{d}
}

// letterOf is a dead letter with that many bytes of data.
func letterOf(number uint64, size int) []byte {
	e := event.Event{
		ID: fmt.Sprint("uid:", number), Op: event.Modified, Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps",
		Kind: "ConfigMap", Namespace: "default", Name: "one", UID: "uid", ResourceVersion: number, Ordinal: number,
		Data: fmt.Appendf(nil, `{"object":{"data":%q}}`, strings.Repeat("x", size)),
	}
	return append(e.AppendJSON([]byte(`{"reason":"refused","event":`)), '}')
}

// filled returns a box with n dead letters.
func filled(t *testing.T, n uint64) deliver.Box {
	t.Helper()
	box := emptyJournal(t).DeadLetters("out")
	for number := range n {
		must(t, box.Put(t.Context(), letterOf(number+1, 10)))
	}
	return box
}

// listed returns the numbers of the dead letters in a box.
func listed(t *testing.T, box deliver.Box) []uint64 {
	t.Helper()
	numbers := []uint64{}
	err := box.Each(context.WithoutCancel(t.Context()), func(number uint64, _ []byte) error {
		numbers = append(numbers, number)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return numbers
}

// TestRedelivery: an event that is refused again is a new dead letter, which the same command does not deliver. Numbers
// without a dead letter are in the error. If the operator has narrowed the sink since, the dead letters that nothing was
// sent for are counted and stay.
func TestRedelivery(t *testing.T) {
	accept := func(_ context.Context, batch []event.Event) (int, error) { return len(batch), nil }
	refuse := func(context.Context, []event.Event) (int, error) { return 0, sink.Permanent(errors.New("refused")) }
	for name, test := range map[string]struct {
		write   writeFunc
		only    []deliver.Match
		numbers []uint64
		want    admin.Count
		unknown string
		left    []uint64
	}{
		"refused again": {write: refuse, numbers: []uint64{3, 1}, want: admin.Count{Refused: 2}, left: []uint64{2, 4, 5}},
		"unknown":       {write: accept, numbers: []uint64{7, 2, 4}, unknown: "no dead letter of number 7, 4, and informd changed nothing", left: []uint64{1, 2, 3}},
		"filtered out":  {write: accept, only: []deliver.Match{{Resource: "secrets"}}, want: admin.Count{Filtered: 3}, left: []uint64{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			box := filled(t, 3)
			count, err := operatorOf(t, box, test.write, test.only...).RedeliverLetters(t.Context(), "out", test.numbers)
			wrong := err != nil
			if test.unknown != "" {
				wrong = !errors.Is(err, admin.ErrUnknown) || !strings.Contains(err.Error(), test.unknown)
			}
			if wrong {
				t.Errorf("error %v, want %q", err, test.unknown)
			}
			if count != test.want {
				t.Errorf("%+v, want %+v", count, test.want)
			}
			if got := listed(t, box); !slices.Equal(got, test.left) {
				t.Errorf("listed: %d, want %d", got, test.left)
			}
		})
	}
}

// TestRedeliveryIsNotRepeated: dead letters leave the queue as they are delivered. If the operator
// goes away, those that the destination did not accept are left, and the one that is on its way.
func TestRedeliveryIsNotRepeated(t *testing.T) {
	for _, last := range []int{2, 3} { // the write in which the operator goes away
		t.Run(fmt.Sprint(last), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			writes, box, gone := 0, filled(t, 3), make(chan struct{})
			o := operatorOf(t, box, func(_ context.Context, batch []event.Event) (int, error) {
				if writes++; writes == 2 {
					if got, want := listed(t, box), []uint64{2, 3}; !slices.Equal(got, want) {
						t.Errorf("after the first delivery, listed: %d, want %d", got, want)
					}
				}
				if writes == last {
					cancel()
					<-gone
				}
				return len(batch), nil
			})
			if count, err := o.RedeliverLetters(ctx, "out", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("%+v, %v", count, err)
			}
			close(gone)
			if got, want := listed(t, box), []uint64{1, 2, 3}[last-1:]; !slices.Equal(got, want) {
				t.Errorf("listed: %d, want %d", got, want)
			}
		})
	}
}
