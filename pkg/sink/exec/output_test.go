package exec_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/sink"
	sinkexec "github.com/informd/informd/pkg/sink/exec"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// logged is an environment whose log tests read when the sink is closed.
func logged(t *testing.T, log *bytes.Buffer) sink.Env {
	t.Helper()
	env := sinktest.Env(t)
	env.Logger = slog.New(slog.NewTextHandler(log, nil))
	return env
}

// TestOutputInTheLog: what a program prints is in the log, bounded in lines and in their length,
// and a terminal obeys none of it.
func TestOutputInTheLog(t *testing.T) {
	script := `printf 'hello \033[31m \302\233 \342\200\256 \377 world\n' >&2; printf 'the last one' >&2`
	flood := `i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done; head -c 100000 /dev/zero | tr '\0' x >&2`
	for name, c := range map[string]struct {
		script       string
		want         []string
		atMost       int
		lengthAtMost int
	}{
		"lines": {script, []string{"hello", "world", "the last one"}, 2, 200},
		"flood": {flood, []string{"line 0", "lines="}, 120, 1300},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := open(t, options(t, func(o *sinkexec.Config) { o.Ack = sinkexec.Exit }, "sh", "-c", c.script), logged(t, &log))
			sinktest.Deliver(t, s, sinktest.Events(3))
			shut(t, s)
			text := log.String()
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("the log has no %q:\n%.2000s", want, text)
				}
			}
			if n := strings.Count(text, "\n"); n == 0 || n > c.atMost {
				t.Errorf("the log has %d lines, want at most %d", n, c.atMost)
			}
			for line := range strings.Lines(text) {
				if len(line) > c.lengthAtMost {
					t.Errorf("a line has %d bytes", len(line))
				}
			}
			if strings.ContainsAny(text, "\x1b\u009b\u202e") {
				t.Errorf("the log has control characters: %q", text)
			}
		})
	}
}

// TestRenderIsWhatIsWritten compares what informd try shows with what a program reads.
func TestRenderIsWhatIsWritten(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	c := options(t, func(o *sinkexec.Config) {
		o.Ack, o.Env = sinkexec.Exit, map[string]sink.Secret{"OUT": sink.NewSecret(out)}
	}, "sh", "-c", "exec cat >>$OUT")
	env := sinktest.Env(t)
	events := slices.Concat(sinktest.AllOps(), sinktest.Hostile())
	var rendered []byte
	for i := range events {
		one, err := c.Render(env, &events[i])
		if err != nil || !strings.Contains(one.To, "sh") {
			t.Fatalf("%+v, %v", one, err)
		}
		rendered = append(rendered, one.Body...)
	}
	s := open(t, c, env)
	sinktest.Deliver(t, s, events)
	shut(t, s)
	written, err := os.ReadFile(out)
	sinktest.Must(t, err)
	if diff := cmp.Diff(string(written), string(rendered)); diff != "" {
		t.Errorf("-written +rendered:\n%s", diff)
	}
}

// TestMistakes: each is found without starting anything, under its key.
func TestMistakes(t *testing.T) {
	for want, change := range map[string]func(c *sinkexec.Config){
		"command":            func(c *sinkexec.Config) { c.Command = nil },
		"ack":                func(c *sinkexec.Config) { c.Ack = "maybe" },
		"env.A=B":            func(c *sinkexec.Config) { c.Env = map[string]sink.Secret{"A=B": sink.NewSecret("c")} },
		"processes":          func(c *sinkexec.Config) { c.Processes = 0 },
		"batch":              func(c *sinkexec.Config) { c.Batch = 257 },
		"timeout":            func(c *sinkexec.Config) { c.Timeout = -1 },
		"command of no text": func(c *sinkexec.Config) { c.Command = []string{""} },
		"command in one":     func(c *sinkexec.Config) { c.Command = []string{"python3 handler.py"} },
	} {
		c := options(t, nil, "true")
		change(c)
		if problems := c.Validate(); len(problems) != 1 || problems[0].Key != strings.Fields(want)[0] {
			t.Errorf("%s: %v", want, problems)
		}
	}
	if _, err := options(t, nil, "no-such-program-anywhere").Open(t.Context(), sinktest.Env(t)); err == nil {
		t.Error("a missing program opens")
	}
}
