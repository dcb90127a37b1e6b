package exec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/sink"
	sinkexec "github.com/informd/informd/pkg/sink/exec"
	"github.com/informd/informd/pkg/sink/sinktest"
)

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
	var log logged
	s := open(t, c, log.env(t))
	sinktest.Deliver(t, s, sinktest.Events(1))
	began := time.Now()
	shut(t, s)
	if !present(out) {
		t.Errorf("the program was killed after %v", time.Since(began))
	}
	for _, want := range []string{"line=begin", "line=xxx", "line=end"} {
		if !strings.Contains(log.text.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}
