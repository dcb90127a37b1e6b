package exec_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// The files in the directory of a handler.
const (
	received = "received" // what it has handled
	stalled  = "stalled"  // while it exists, the handler handles nothing
	room     = "room"     // how many events it still handles, before it exits with code 75
	pids     = "pids"     // of all handlers that were started
)

// handle is a program for events: it appends each line to a file and acknowledges it in a manner.
func handle(dir, manner string) int {
	logTo(filepath.Join(dir, pids), strconv.Itoa(os.Getpid())+"\n")
	if text, err := os.ReadFile(filepath.Join(dir, received)); err == nil && len(text) > 0 && text[len(text)-1] != '\n' {
		logTo(filepath.Join(dir, received), "\n") // behind a line that was cut
	}
	in := bufio.NewReader(os.Stdin)
	var waiting []string
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return 0
		}
		var event struct{ ID, Name string }
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			fmt.Fprintln(os.Stderr, "the handler got no event:", err)
			return 1
		}
		for present(filepath.Join(dir, stalled)) {
			<-time.After(time.Millisecond)
		}
		if code := mood(dir, event.Name); code != willing {
			return code
		}
		logTo(filepath.Join(dir, received), line)
		waiting = acknowledge(append(waiting, event.ID), manner)
	}
}

// acknowledge prints what acknowledges ids, and returns those that wait for others.
func acknowledge(ids []string, manner string) []string {
	last := ids[len(ids)-1]
	switch {
	case manner == string(sinkexec.IDs):
		fmt.Fprintln(os.Stdout, last)
	case manner == "slow":
		<-time.After(200 * time.Millisecond)
		fmt.Fprintln(os.Stdout, last)
	case manner == string(sinkexec.Exit):
	case len(ids) < 10:
		return ids
	case manner == "backwards":
		for _, id := range slices.Backward(ids) {
			fmt.Fprintln(os.Stdout, id)
		}
	case manner == "twice":
		fmt.Fprintln(os.Stdout, strings.Join(append(ids, ids...), "\n"))
	case manner == "noise":
		fmt.Fprintf(os.Stdout, "\x1b[31m%s%s\n %s\r\n\nupto %s\n", strings.Repeat("x", 100000), ids[0], ids[0], last)
	case manner == "upto":
		fmt.Fprintln(os.Stdout, "upto", last)
	}
	return nil
}

// willing is no exit code: the handler takes the event.
const willing = -1

// mood returns the exit code of a handler that does not want an event.
func mood(dir, name string) int {
	if code, ok := strings.CutPrefix(name, "exit-"); ok {
		n, _ := strconv.Atoi(code)
		return n
	}
	text, err := os.ReadFile(filepath.Join(dir, room))
	if err != nil {
		return willing
	}
	n, _ := strconv.Atoi(string(text))
	if n == 0 {
		return 75
	}
	if err := os.WriteFile(filepath.Join(dir, room), strconv.AppendInt(nil, int64(n-1), 10), 0o600); err != nil {
		return 1
	}
	return willing
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func logTo(path, text string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

// handler returns options for the test binary as a handler, and its directory.
func handler(t *testing.T, change func(c *sinkexec.Config)) (c *sinkexec.Config, dir string) {
	t.Helper()
	dir = t.TempDir()
	c = options(t, change, os.Args[0])
	c.Env = map[string]sink.Secret{
		"EXEC_TEST_PROGRAM": sink.NewSecret("handler"),
		"EXEC_TEST_DIR":     sink.NewSecret(dir),
		"EXEC_TEST_ACK":     sink.NewSecret(string(c.Ack)),
		"GORACE":            sink.NewSecret("atexit_sleep_ms=0"), // the race detector waits a second otherwise
	}
	return c, dir
}

// options returns those of a command, with a change.
func options(t *testing.T, change func(c *sinkexec.Config), command ...string) *sinkexec.Config {
	t.Helper()
	return sinktest.Options(t, sinkexec.Driver(), func(c *sinkexec.Config) { c.Command = command }, change)
}

// open opens a sink, and closes it after the test.
func open(t *testing.T, c *sinkexec.Config, env sink.Env) sink.Sink {
	t.Helper()
	s, err := c.Open(t.Context(), env)
	sinktest.Must(t, err)
	return s
}

// records is what handlers have in a directory, without lines that a kill has cut.
func records(t *testing.T, dir string) []sinktest.Record {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, received))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var all []sinktest.Record
	for line := range strings.Lines(string(text)) {
		if r, err := sinktest.FromJSON([]byte(line)); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// started are the ids of the processes of a directory.
func started(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, pids))
	sinktest.Must(t, err)
	return strings.Fields(string(text))
}
