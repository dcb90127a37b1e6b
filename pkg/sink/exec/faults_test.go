package exec_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	sinkexec "github.com/informd/informd/pkg/sink/exec"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// patience is far above what any step takes.
const patience = 30 * time.Second

// write calls Write and holds it to its contract.
func write(t *testing.T, s sink.Sink, events []event.Event) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := s.Write(ctx, events)
	if ctx.Err() != nil {
		t.Fatalf("Write did not return within %v: %v", patience, err)
	}
	if n < 0 || n > len(events) || (n == len(events)) != (err == nil) {
		t.Fatalf("Write returned %d of %d and the error %v", n, len(events), err)
	}
	return n, err
}

// shut closes a sink.
func shut(t *testing.T, s sink.Sink) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// wantInOrder holds a directory to the events: each at least once, and in order per object, also
// for a reader that drops repeated ids.
func wantInOrder(t *testing.T, dir string, events []event.Event) {
	t.Helper()
	if _, err := sinktest.InOrder(sinktest.IDs(records(t, dir)), events); err != nil {
		t.Fatal(err)
	}
}

// TestKilledProgram: kill -9 in the middle of batches loses nothing and keeps the order.
func TestKilledProgram(t *testing.T) {
	for _, ack := range []sinkexec.Ack{sinkexec.IDs, sinkexec.Exit} {
		t.Run(string(ack), func(t *testing.T) {
			c, dir := handler(t, func(c *sinkexec.Config) { c.Ack, c.Batch = ack, 50 })
			s := sinktest.Open(t, c)
			var kills atomic.Int64
			var killing sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			killing.Go(func() {
				size := int64(0)
				for tick := time.Tick(time.Millisecond); ctx.Err() == nil; <-tick {
					info, err := os.Stat(filepath.Join(dir, received))
					if err != nil || info.Size() < size+60<<10 { // more than a batch, so that some get through
						continue
					}
					size = info.Size()
					if text := strings.Fields(read(filepath.Join(dir, pids))); signal(t, text[len(text)-1], syscall.SIGKILL) {
						kills.Add(1)
					}
				}
			})
			events := sinktest.Events(600)
			// Again, if a busy machine was late for the kills.
			for end := time.Now().Add(patience); kills.Load() < 2 && time.Now().Before(end); {
				for left := events; len(left) > 0; {
					n, err := write(t, s, left[:min(len(left), 200)])
					if left = left[n:]; sink.IsPermanent(err) || sink.IsUnknown(err) {
						t.Fatalf("a killed program is no refusal: %v", err)
					}
				}
			}
			stop()
			if killing.Wait(); kills.Load() < 2 {
				t.Errorf("%d kills only", kills.Load())
			}
			wantInOrder(t, dir, events)
		})
	}
}

func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// signal sends a signal to a process, and reports whether there is one.
func signal(t *testing.T, pid string, number syscall.Signal) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 1 {
		t.Fatalf("%q is no process id", pid)
	}
	return syscall.Kill(n, number) == nil
}

// TestBadPrograms: programs that break the contract cost one attempt, and no event.
func TestBadPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		ack    sinkexec.Ack
		script string
	}{
		"never reads":              {sinkexec.IDs, `exec sleep 1000`},
		"never acknowledges":       {sinkexec.IDs, `exec cat >/dev/null`},
		"lines of garbage":         {sinkexec.IDs, `yes garbage & exec cat >/dev/null`},
		"garbage without lines":    {sinkexec.IDs, `cat /dev/zero & exec cat >/dev/null`},
		"errors without end":       {sinkexec.IDs, `yes garbage >&2 & exec cat >/dev/null`},
		"closes its output":        {sinkexec.IDs, `exec >&-; exec cat >/dev/null`},
		"ends at once":             {sinkexec.IDs, `exit 0`},
		"prints the id of another": {sinkexec.IDs, `echo uid-0-1000:1; echo upto nobody; exec cat >/dev/null`},
		"does not end":             {sinkexec.Exit, `trap '' TERM; sleep 1000`},
		"cannot now":               {sinkexec.Exit, `exit 75`},
		"kills itself":             {sinkexec.Exit, `kill -9 $$`},
		"is not there":             {sinkexec.IDs, `exec /nonexistent/program`},
	} {
		t.Run(name, func(t *testing.T) {
			options := options(t, func(o *sinkexec.Config) { o.Ack, o.Timeout = c.ack, 300*time.Millisecond }, "sh", "-c", c.script)
			s := sinktest.Open(t, options)
			events := append(sinktest.Big(3, 1400<<10), sinktest.Events(20)...)
			for range 2 {
				if n, err := write(t, s, events); n != 0 || err == nil || sink.IsPermanent(err) || sink.IsUnknown(err) {
					t.Errorf("Write returned %d and %v, want 0 and an error that passes", n, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := s.Write(ctx, events); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestSlowProgram: the time is that between two acknowledgements, not that of a batch.
func TestSlowProgram(t *testing.T) {
	c, dir := handler(t, func(c *sinkexec.Config) { c.Timeout = 2 * time.Second })
	c.Env["EXEC_TEST_ACK"] = sink.NewSecret("slow")
	s := sinktest.Open(t, c)
	events := append(sinktest.Events(15), sinktest.Big(2, 1400<<10)...)
	if n, err := write(t, s, events); err != nil {
		t.Errorf("Write returned %d and %v", n, err)
	}
	wantInOrder(t, dir, events)
}

// TestLooseAcknowledgements: ids may come in another order, twice, or all at once by `upto`.
func TestLooseAcknowledgements(t *testing.T) {
	for _, manner := range []string{"backwards", "twice", "upto", "noise"} {
		t.Run(manner, func(t *testing.T) {
			c, _ := handler(t, nil)
			c.Env["EXEC_TEST_ACK"] = sink.NewSecret(manner)
			s := sinktest.Open(t, c)
			for batch := 0; batch < 30; batch += 10 {
				if n, err := write(t, s, sinktest.Events(30)[batch:batch+10]); err != nil {
					t.Fatalf("Write returned %d and %v", n, err)
				}
			}
		})
	}
}

// TestCutAcknowledgement: a line without its end may be the beginning of another id.
func TestCutAcknowledgement(t *testing.T) {
	events := sinktest.Events(2)
	s := sinktest.Open(t, options(t, nil, "sh", "-c", `printf %s "`+events[0].ID+`"`))
	if n, err := write(t, s, events); n != 0 {
		t.Errorf("Write returned %d and %v", n, err)
	}
}

// TestExitCodes is the table of docs/sinks/exec.md.
func TestExitCodes(t *testing.T) {
	const passing, permanent, unknown = "passing", "permanent", "unknown"
	for name, c := range map[string]struct {
		ack     sinkexec.Ack
		trusted bool // it has acknowledged something else
		want    string
	}{
		"0":  {sinkexec.IDs, true, passing},
		"75": {sinkexec.Exit, true, passing},
		"65": {sinkexec.Exit, false, permanent},
		"1":  {sinkexec.Exit, true, permanent},
		"2":  {sinkexec.Exit, false, unknown},
		"3":  {sinkexec.IDs, true, unknown},
		"4":  {sinkexec.IDs, false, passing},
	} {
		t.Run(string(c.ack)+" "+name, func(t *testing.T) {
			options, dir := handler(t, func(o *sinkexec.Config) { o.Ack = c.ack })
			s := sinktest.Open(t, options)
			events := sinktest.Events(6)
			want := 0
			if c.trusted {
				want = 3
			}
			batch := append(append(events[:want:want], about("exit-"+name)), events[want:]...)
			n, err := write(t, s, batch)
			got := sinktest.Kind(err)
			if got != c.want {
				t.Errorf("the error %v is %s, want %s", err, got, c.want)
			}
			if c.ack == sinkexec.IDs && n != want || got == permanent && n != want {
				t.Errorf("Write returned %d, want %d", n, want)
			}
			sinktest.Deliver(t, s, append(batch[n:want:want], events[want:]...))
			wantInOrder(t, dir, events)
		})
	}
}

// TestBrokenProgram: one that refuses every event makes few dead letters with ack: exit, and none
// with ack: ids.
func TestBrokenProgram(t *testing.T) {
	for ack, want := range map[sinkexec.Ack]int{sinkexec.IDs: 0, sinkexec.Exit: 10} {
		t.Run(string(ack), func(t *testing.T) {
			options, _ := handler(t, func(o *sinkexec.Config) { o.Ack = ack })
			s := sinktest.Open(t, options)
			sinktest.Deliver(t, s, sinktest.Events(1))
			permanent := 0
			for range 15 {
				if _, err := write(t, s, []event.Event{about("exit-1")}); sink.IsPermanent(err) {
					permanent++
				}
			}
			if permanent != want {
				t.Errorf("%d events were refused for good, want %d", permanent, want)
			}
		})
	}
}

// TestIDsThatNoLineHas: an event that a program could not acknowledge holds up no other.
func TestIDsThatNoLineHas(t *testing.T) {
	for _, uid := range []string{"a\nb", "a\rb", " a", "\x00", "a\x85b", "\xff"} {
		for ack, want := range map[sinkexec.Ack]bool{sinkexec.IDs: true, sinkexec.Exit: false} {
			c, _ := handler(t, func(o *sinkexec.Config) { o.Ack = ack })
			s := open(t, c, sinktest.Env(t))
			events := sinktest.Events(5)
			events[2].UID, events[2].ID = uid, form.ObjectID(uid, 7, 0)
			n, err := write(t, s, events)
			if refused := sink.IsPermanent(err); refused != want || refused && n != 2 {
				t.Errorf("%q with ack: %s: %d and %v", uid, ack, n, err)
			}
			shut(t, s)
		}
	}
}

// TestEnvironment: a program gets no variable of informd but PATH and HOME.
func TestEnvironment(t *testing.T) {
	t.Setenv("NATS_TOKEN", "secret")
	t.Setenv("HOME", "/home/informd")
	out := filepath.Join(t.TempDir(), "env")
	c := options(t, func(o *sinkexec.Config) {
		o.Ack = sinkexec.Exit
		o.Env = map[string]sink.Secret{"OUT": sink.NewSecret(out), "TZ": sink.NewSecret("UTC")}
	}, "sh", "-c", "exec env >$OUT")
	s := sinktest.Open(t, c)
	sinktest.Deliver(t, s, sinktest.Events(1))
	text, err := os.ReadFile(out)
	sinktest.Must(t, err)
	got := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	for _, ofTheShell := range []string{"PWD", "OLDPWD", "SHLVL", "_"} {
		delete(got, ofTheShell)
	}
	if len(got) != 4 || got["PATH"] != os.Getenv("PATH") || got["HOME"] != "/home/informd" || got["OUT"] != out || got["TZ"] != "UTC" {
		t.Errorf("the environment is %v", got)
	}
}

// TestProgramThatCannotWork: a program that is missing, or ends before it has read an event, refuses
// none, also if it has handled others before. An exit code that is about events says so all the same.
func TestProgramThatCannotWork(t *testing.T) {
	for name, c := range map[string]struct {
		script    string
		permanent bool
	}{
		"a script that is missing":          {"", false},
		"a program that is missing":         {"cat >/dev/null; exec /nonexistent/program", false},
		"no permission":                     {"cat >/dev/null; exit 126", false},
		"a module that is missing":          {"exit 1", false},
		"input that is cut off":             {"exec <&-; sleep 0.05; exit 3", false},
		"the code of a refusal":             {"exit 65", true},
		"a refusal of what it has read":     {"cat >/dev/null; exit 1", true},
		"a refusal after the first of it":   {"head -c 10 >/dev/null; exit 1", true},
		"the code of a temporary failure":   {"cat >/dev/null; exit 75", false},
		"a crash after it has read events":  {"cat >/dev/null; kill -SEGV $$", true},
		"a crash before it has read events": {"kill -SEGV $$", false},
	} {
		t.Run(name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "handler.sh")
			save := func(text string) {
				sinktest.Must(t, os.WriteFile(script, []byte(text), 0o600))
			}
			save("exec cat >/dev/null")
			s := sinktest.Open(t, options(t, func(o *sinkexec.Config) { o.Ack = sinkexec.Exit }, "sh", script))
			sinktest.Deliver(t, s, sinktest.Events(3))
			if save(c.script); c.script == "" {
				sinktest.Must(t, os.Remove(script))
			}
			for _, events := range [][]int{{1, 100}, {30, 100}, {1, 1 << 20}} {
				n, err := write(t, s, sinktest.Big(events[0], events[1]))
				if n != 0 || err == nil || sink.IsPermanent(err) != c.permanent || sink.IsUnknown(err) {
					t.Errorf("%d events of %d bytes: Write returned %d and %v, want 0 and an error, permanent: %t", events[0], events[1], n, err, c.permanent)
				}
				if n := strings.Count(err.Error(), "command"); !c.permanent && n == 0 && !strings.Contains(name, "temporary") {
					t.Errorf("the error does not say what to check: %v", err)
				}
			}
		})
	}
}

// TestOutputAtTheEnd: a program that prints more than a pipe holds when its input ends is not killed,
// and the log has it, within its limits.
func TestOutputAtTheEnd(t *testing.T) {
	out := filepath.Join(t.TempDir(), "ended")
	c := options(t, func(o *sinkexec.Config) { o.Env = map[string]sink.Secret{"OUT": sink.NewSecret(out)} }, "sh", "-c",
		`read -r line; expr "$line" : '.*"id":"\([^"]*\)"'; cat >/dev/null; echo begin; head -c 1000000 /dev/zero | tr '\0' x; echo; echo end; echo x >$OUT`)
	var log bytes.Buffer
	s := open(t, c, logged(t, &log))
	sinktest.Deliver(t, s, sinktest.Events(1))
	began := time.Now()
	shut(t, s)
	if !present(out) {
		t.Errorf("the program was killed after %v", time.Since(began))
	}
	for _, want := range []string{"line=begin", "line=xxx", "line=end"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}
