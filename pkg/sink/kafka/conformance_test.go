package kafka_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestConformance runs the suite for every way in which the brokers may fail.
func TestConformance(t *testing.T) {
	tests := map[string]struct {
		encoding, compression string
		breaks                func(m *moods)
	}{
		"refused":      {"binary", "gzip", func(m *moods) { m.fault(kerr.NotLeaderForPartition) }},
		"cut off":      {"cloudevents", "zstd", (*moods).cut},
		"answers lost": {"binary", "lz4", func(m *moods) { m.fault(kerr.RequestTimedOut) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Target{
				Lanes: kafka.Driver().Lanes,
				Setup: func(t *testing.T) *sinktest.Destination {
					t.Helper()
					m := &moods{cluster: startCluster(t)}
					return destination(m, tt.breaks, func(c *kafka.Config) { c.Format, c.Compression = sink.Format(tt.encoding), tt.compression })
				},
				IgnoreGoroutines: []goleak.Option{ // of connections and of controls, until the cluster is closed
					goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*clientConn).read"),
					goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*clientConn).write"),
					goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*Cluster).runControl.func1"),
				},
			})
		})
	}
}

// moods is what the conformance suite asks of the brokers.
type moods struct {
	cluster *kfake.Cluster

	mu     sync.Mutex
	broken *kfake.FaultHandle
	mend   context.CancelFunc // ends a stall, or the cutting of connections
}

func (m *moods) fault(err *kerr.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = m.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err, Count: -1})
}

// control has the brokers do something else with every request until heal.
func (m *moods) control(instead func(healed context.Context) (answered error)) {
	healed, mend := context.WithCancel(context.Background())
	m.mu.Lock()
	m.mend = mend
	m.mu.Unlock()
	m.cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		m.cluster.KeepControl()
		select {
		case <-healed.Done():
			m.cluster.DropControl()
			return nil, nil, false
		default:
			err := instead(healed)
			return nil, err, err != nil
		}
	})
}

func (m *moods) cut() {
	m.control(func(context.Context) error { return errors.New("cut") })
}

func (m *moods) stall(*testing.T) {
	m.control(func(healed context.Context) error {
		m.cluster.SleepControl(func() { <-healed.Done() })
		return nil
	})
}

func (m *moods) heal(*testing.T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		m.broken.Remove()
		m.broken = nil
	}
	if m.mend != nil {
		m.mend()
		m.mend = nil
	}
}

func destination(m *moods, breaks func(m *moods), change func(c *kafka.Config)) *sinktest.Destination {
	return &sinktest.Destination{
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			s, err := config(t, m.cluster, change).Open(t.Context(), sinktest.Env(t))
			sinktest.Must(t, err)
			return s
		},
		Received: func(t *testing.T) []sinktest.Record {
			t.Helper()
			var all []sinktest.Record
			for _, r := range consumed(t, m.cluster, []string{topic}) {
				if r.Value == nil {
					continue // tombstones are no events
				}
				if content, _ := header(r, "content-type"); content != event.ContentTypeJSON {
					all = append(all, readBinary(t, r))
					continue
				}
				read, err := sinktest.FromJSON(r.Value)
				sinktest.Must(t, err)
				all = append(all, read)
			}
			return all
		},
		Break: func(*testing.T, int) { breaks(m) },
		Stall: m.stall,
		Heal:  m.heal,
		Poison: func(*testing.T) event.Event {
			e := sinktest.Big(1, maxMessage)[0]
			e.ID, e.Name, e.UID = "uid-poison:1", "poison", "uid-poison"
			// Not even compression makes it fit: every byte differs from the last.
			x := uint32(1)
			for i := len(`{"object":{"filler":"`); i < len(e.Data)-len(`"}}`); i++ {
				x ^= x << 13
				x ^= x >> 17
				x ^= x << 5
				e.Data[i] = '#' + byte(x%56)
			}
			return e
		},
	}
}
