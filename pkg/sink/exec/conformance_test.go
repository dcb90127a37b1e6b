package exec_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	sinkexec "github.com/informd/informd/pkg/sink/exec"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(c *sinkexec.Config){
		"ids":         nil,
		"ids, lanes":  func(c *sinkexec.Config) { c.Processes, c.Batch = 4, 2 },
		"exit, lanes": func(c *sinkexec.Config) { c.Ack, c.Processes = sinkexec.Exit, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Target{
				Lanes: options(t, change, "true").Lanes(),
				Setup: func(t *testing.T) *sinktest.Destination {
					t.Helper()
					return destination(t, change)
				},
			})
		})
	}
}

func destination(t *testing.T, change func(c *sinkexec.Config)) *sinktest.Destination {
	t.Helper()
	c, dir := handler(t, change)
	write := func(t *testing.T, name, text string) {
		t.Helper()
		sinktest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return &sinktest.Destination{
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			return open(t, c, sinktest.Env(t))
		},
		Received: func(t *testing.T) []sinktest.Record {
			t.Helper()
			return records(t, dir)
		},
		Break: func(t *testing.T, after int) {
			t.Helper()
			write(t, room, strconv.Itoa(after))
		},
		Stall: func(t *testing.T) {
			t.Helper()
			write(t, stalled, "")
		},
		Heal: func(t *testing.T) {
			t.Helper()
			_ = os.Remove(filepath.Join(dir, stalled)) // one of them is there
			_ = os.Remove(filepath.Join(dir, room))
		},
		Poison: func(t *testing.T) event.Event {
			t.Helper()
			return about("exit-65")
		},
	}
}

// about returns an event about an object of its own.
func about(name string) event.Event {
	e := sinktest.Events(1)[0]
	e.ID, e.UID, e.Name = "uid-"+name+":1", "uid-"+name, name
	return e
}
