package sinktest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestSoundSinkPasses(t *testing.T) {
	sinktest.Run(t, target(4, defect{}))
}

// defectVariable makes this test binary run the suite on a sink with that defect.
const defectVariable = "INFORMD_SINKTEST_DEFECT"

// defects are what the suite must find, each with the check that must fail for it.
func defects() map[string]struct {
	bug  defect
	fail string
} {
	type found = struct {
		bug  defect
		fail string
	}
	return map[string]found{
		"changes the batch": {defect{before: func(batch []event.Event) {
			if len(batch) > 0 {
				batch[0].Cluster = "other"
			}
		}}, "order_and_acknowledgement"},
		"changes the data": {defect{before: func(batch []event.Event) {
			if len(batch) > 0 && len(batch[0].Data) > 0 {
				batch[0].Data[0] = ' '
			}
		}}, "order_and_acknowledgement"},
		"keeps the batch": {defect{
			line: func(*event.Event, []byte) []byte { return nil },
			keep: func(d *destination, batch []event.Event) { d.kept = append(d.kept, batch...) },
		}, "all_operations"},
		"reverses the batch": {defect{order: func(batch []event.Event) []event.Event {
			slices.Reverse(batch)
			return batch
		}}, "order_and_acknowledgement"},
		"drops control records": {defect{line: func(e *event.Event, line []byte) []byte {
			if e.Op.Control() {
				return nil
			}
			return line
		}}, "all_operations"},
		"cuts big events": {defect{line: func(e *event.Event, line []byte) []byte {
			if len(line) < 1<<20 {
				return line
			}
			cut := *e
			cut.Data = []byte(`{}`)
			return cut.AppendJSON(nil)
		}}, "big_events"},
		"loses an attribute": {defect{line: func(_ *event.Event, line []byte) []byte {
			return bytes.Replace(line, []byte(`"replay":true`), []byte(`"replay":false`), 1)
		}}, "all_operations"},
		"claims all after a failure": {defect{result: func(n int, err error) (int, error) {
			if errors.Is(err, errBroken) {
				return n + 1, err
			}
			return n, err
		}}, "transient_failure_inside_a_batch"},
		"miscounts what it refuses": {defect{result: func(n int, err error) (int, error) {
			if sink.IsPermanent(err) {
				return 0, err
			}
			return n, err
		}}, "permanent_failure_inside_a_batch"},
		"calls all failures permanent": {defect{result: func(n int, err error) (int, error) {
			return n, sink.Permanent(err)
		}}, "transient_failure_at_once"},
		"calls no failure permanent": {defect{result: func(n int, err error) (int, error) {
			if sink.IsPermanent(err) {
				return n, errBroken
			}
			return n, err
		}}, "permanent_failure_at_the_beginning"},
		"hides the context's error": {defect{result: func(n int, err error) (int, error) {
			if errors.Is(err, context.Canceled) {
				return n, errBroken
			}
			return n, err
		}}, "context_ended_before"},
		"waits a while after its context": {defect{ctx: func(context.Context) context.Context {
			late, cancel := context.WithTimeout(context.Background(), 6*time.Second)
			context.AfterFunc(late, cancel)
			return late
		}}, "context_ends_while_stalled"},
		"leaks a goroutine": {defect{close: func(context.Context) bool {
			go func() { <-make(chan struct{}) }()
			return true
		}}, "empty_batch"},
		"repeats events":     {defect{repeats: true}, "repeated_positions"},
		"keeps its identity": {defect{forgets: true}, "lost_events"},
		"short without an error": {defect{result: func(n int, _ error) (int, error) {
			return max(0, n-1), nil
		}}, "open_again"},
	}
}

func TestDefectsAreFound(t *testing.T) {
	if name := os.Getenv(defectVariable); name != "" {
		sinktest.Run(t, target(1, defects()[name].bug))
		return
	}
	for name, d := range defects() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := "^TestDefectsAreFound$/^(setup|" + d.fail + ")$"
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", check)
			cmd.Env = append(os.Environ(), defectVariable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestDefectsAreFound/"+d.fail) {
				t.Errorf("check %s did not fail (%v):\n%s", d.fail, err, out)
			}
		})
	}
}

func TestRecordsOfBothForms(t *testing.T) {
	for _, e := range append(sinktest.AllOps(), sinktest.Hostile()...) {
		fromJSON, err := sinktest.FromJSON(e.AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		headers := map[string][]string{"Nats-Msg-Id": {e.ID}}
		e.AppendHeaders(func(name, value string) { headers[name] = append(headers[name], value) })
		fromHeaders, err := sinktest.FromHeaders(headers, e.Data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromJSON, fromHeaders); diff != "" {
			t.Errorf("%s: JSON and headers differ (-json +headers):\n%s", e.ID, diff)
		}
	}
}

func TestFromLinesRefusesCutLines(t *testing.T) {
	whole := append(sinktest.Events(1)[0].AppendJSON(nil), '\n')
	if got, err := sinktest.FromLines(append(whole, whole...)); err != nil || len(got) != 2 {
		t.Errorf("FromLines of two lines = %d records, %v", len(got), err)
	}
	if got, err := sinktest.FromLines(append(whole, whole[:len(whole)-1]...)); err == nil || len(got) != 1 {
		t.Errorf("FromLines of a cut line = %d records, %v, want 1 and an error", len(got), err)
	}
}
