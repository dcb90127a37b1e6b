package sinks_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/cluster/proc"
	"github.com/informd/informd/test/natsserver"
)

func TestNATSConformance(t *testing.T) {
	modes := map[string]struct {
		change   func(c *nats.Config)
		received func(t *testing.T, server *natsserver.Server) func(t *testing.T) []sinktest.Record
	}{
		"core":      {received: receivedCore},
		"jetstream": {change: useJetStream, received: receivedStream},
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Target{
				Lanes: nats.Driver().Lanes,
				Setup: func(t *testing.T) *sinktest.Destination {
					t.Helper()
					server := startServer(t)
					return destination(server, mode.change, mode.received(t, server))
				},
				IgnoreGoroutines: clientGoroutines(),
			})
		})
	}
}

// clientGoroutines are those of the test's own connection, which reconnects, and
// of the server's restart.
func clientGoroutines() []goleak.Option {
	all := []goleak.Option{goleak.IgnoreAnyFunction("github.com/informd/informd/test/cluster/proc.launch.func1")}
	for _, function := range []string{
		"(*Conn).readLoop", "(*Conn).flusher", "(*Conn).doReconnect", "(*Conn).waitForMsgs", "(*asyncCallbacksHandler).asyncCBDispatcher",
	} {
		all = append(all, goleak.IgnoreAnyFunction("github.com/nats-io/nats%2ego."+function))
	}
	return all
}

func destination(server *natsserver.Server, change func(c *nats.Config), received func(t *testing.T) []sinktest.Record) *sinktest.Destination {
	d := &sinktest.Destination{
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			s, err := config(t, server.URL(), change).Open(t.Context(), sinktest.Env(t))
			must(t, err)
			return s
		},
		Received: received,
		Poison:   tooLarge,
	}
	// A server of core NATS has read what it acknowledged, no more: it must have passed it on before it dies. It
	// is back when the test's own subscriber is.
	faultsOf(d, server.Process, func(t *testing.T) { t.Helper(); received(t) })
	return d
}

// tooLarge is an event that no server of the tests takes.
func tooLarge(*testing.T) event.Event {
	e := sinktest.Big(1, maxPayload)[0]
	e.ID, e.Name, e.UID = "uid-poison:1", "poison", "uid-poison"
	return e
}

// faultsOf breaks a destination by killing its server, and stalls it by freezing it. Around its absence, the test may
// have something to wait for.
func faultsOf(d *sinktest.Destination, server *proc.Process, wait func(t *testing.T)) {
	frozen := false
	d.Break = func(t *testing.T, _ int) {
		t.Helper()
		wait(t)
		must(t, server.Kill())
	}
	d.Stall = func(t *testing.T) {
		t.Helper()
		frozen = true
		must(t, server.Freeze())
	}
	d.Heal = func(t *testing.T) {
		t.Helper()
		if frozen {
			frozen = false
			must(t, server.Thaw())
			return
		}
		must(t, server.Start(t.Context()))
		wait(t)
	}
}

func receivedCore(t *testing.T, server *natsserver.Server) func(t *testing.T) []sinktest.Record {
	t.Helper()
	in := subscribe(t, server.URL())
	return func(t *testing.T) []sinktest.Record {
		t.Helper()
		var all []sinktest.Record
		for _, m := range in.messages(t) {
			all = append(all, record(t, m.Header, m.Data))
		}
		return all
	}
}

func receivedStream(t *testing.T, server *natsserver.Server) func(t *testing.T) []sinktest.Record {
	t.Helper()
	return func(t *testing.T) []sinktest.Record {
		t.Helper()
		var all []sinktest.Record
		for _, m := range stored(t, jetStream(t, dial(t, server.URL())), streamName) {
			all = append(all, record(t, m.Header, m.Data))
		}
		return all
	}
}
