package exec

import (
	"context"
	"fmt"
	"maps"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// Type is the value of `type:` for this sink.
	Type = "exec"

	maxBatch     = 256 // what informd passes to a sink
	maxProcesses = 64
)

// Ack is how the program acknowledges events.
type Ack string

// The ways to acknowledge.
const (
	// IDs is a program that runs on, and prints the id of each event that it has handled.
	IDs Ack = "ids"
	// Exit is a program that runs once per batch, and acknowledges it with exit code 0.
	Exit Ack = "exit"
)

// Driver returns the exec sink type.
func Driver() sink.Driver {
	return sink.Driver{Type: Type, Lanes: 1, New: func() sink.Config {
		return &Config{Ack: IDs, Processes: 1, Batch: 100, Timeout: 30 * time.Second}
	}}
}

// Config is the options of an exec sink.
type Config struct {
	// Command is the program and its arguments. No shell reads it.
	Command []string `yaml:"command"`
	// Ack is how the program acknowledges events: "ids" prints the id of each one, "exit" runs
	// once per batch and acknowledges it with exit code 0.
	Ack Ack `yaml:"ack" enum:"ids,exit"`
	// Env is the environment of the program, beside PATH and HOME of informd. It inherits no
	// other variable.
	Env map[string]sink.Secret `yaml:"env"`
	// Processes is how many processes of the program run at a time. The events of an object stay
	// in order, and may go to another process each time.
	Processes int `yaml:"processes"`
	// Batch is the largest number of events that a process has without an acknowledgement.
	Batch int `yaml:"batch"`
	// Timeout is the longest time without an acknowledgement; with ack: exit, of a run. informd
	// then kills the process, and sends its events again.
	Timeout time.Duration `yaml:"timeout"`
}

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	var problems sink.Problems
	refuse := func(wrong bool, key, format string, args ...any) {
		if wrong {
			problems.Add(key, format, args...)
		}
	}
	refuse(len(c.Command) == 0 || c.Command[0] == "", "command", "is required: the program and its arguments, as in [python3, /etc/informd/handler.py]")
	refuse(len(c.Command) == 1 && strings.ContainsAny(c.Command[0], " |<>;&"), "command",
		"is one word; each argument is an item, as in [python3, handler.py], and a pipe is for a shell, as in [sh, -c, \"jq . | cat\"]")
	refuse(c.Ack != IDs && c.Ack != Exit, "ack", "%q is no way to acknowledge; use %s (the program prints ids) or %s (one run per batch)", c.Ack, IDs, Exit)
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		refuse(name == "" || strings.ContainsAny(name, "=\x00"), "env."+name, "is not the name of a variable, as in LOG_LEVEL")
	}
	refuse(c.Processes < 1 || c.Processes > maxProcesses, "processes", "must be between 1 and %d", maxProcesses)
	refuse(c.Batch < 1 || c.Batch > maxBatch, "batch", "must be between 1 and %d", maxBatch)
	refuse(c.Timeout <= 0, "timeout", "must be more than 0, as in 30s")
	return problems
}

// Lanes implements [sink.Laned].
func (c *Config) Lanes() int { return c.Processes }

// Open implements [sink.Config]. It fails if there is no such program. Processes start when there
// are events.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	if _, err := osexec.LookPath(c.Command[0]); err != nil {
		return nil, fmt.Errorf("find the program of command: %w", err)
	}
	s := &programs{
		config: c, env: []string{}, slots: make(chan *process, c.Processes),
		log: &lineLog{logger: env.Logger, limiter: rate.NewLimiter(linesPerSecond, firstLines)},
	}
	for range c.Processes {
		s.slots <- nil
	}
	for _, name := range []string{"PATH", "HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			s.env = append(s.env, name+"="+value)
		}
	}
	for name, value := range c.Env { // the last one of a name counts
		s.env = append(s.env, name+"="+value.Reveal())
	}
	return s, nil
}

// Render implements [sink.Renderer].
func (c *Config) Render(_ sink.Env, e *event.Event) (sink.Rendered, error) {
	out := sink.Rendered{To: "standard input of " + c.Command[0], Body: sink.FormatCloudEvents.AppendLine(nil, e)}
	if c.Ack == Exit && c.Batch > 1 {
		out.Notes = []string{fmt.Sprintf("a run has up to %d events", c.Batch)}
	}
	return out, c.unanswerable(e)
}
