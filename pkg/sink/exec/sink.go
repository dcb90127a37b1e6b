package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// closeGrace is how long a process may take to end after the end of its input.
	closeGrace = 3 * time.Second
	// outputGrace is how long it may take after the end of its standard output.
	outputGrace = time.Second
)

// programs is an open sink. Write may be called concurrently, as often as there are slots.
type programs struct {
	config *Config
	path   string
	env    []string
	log    *lineLog
	// trust is how many tries of events in a row are believed to be at fault for the end of a
	// program: one that can handle no event, because a module or a database is missing, must
	// not turn the whole stream into dead letters.
	trust atomic.Int64
	// slots are the places of processes, nil if none was started. The Write that has taken one
	// owns the process.
	slots chan *process
}

func open(c *Config, path string, logger *slog.Logger) *programs {
	s := &programs{config: c, path: path, env: []string{}, slots: make(chan *process, c.Processes)}
	s.log = &lineLog{logger: logger, limiter: rate.NewLimiter(linesPerSecond, firstLines)}
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
	return s
}

// Write implements [sink.Sink]: at most [Config.Batch] events at a time. If a process refuses
// one of several, they go one by one.
func (s *programs) Write(ctx context.Context, batch []event.Event) (int, error) {
	p := <-s.slots // there is one for each lane
	defer func() { s.slots <- p }()
	done := 0
	single := 0 // batch[:single] goes one by one
	for done < len(batch) {
		if err := errors.Join(ctx.Err(), s.config.unanswerable(&batch[done])); err != nil {
			return done, err
		}
		end := done + 1
		for done >= single && end < min(done+s.config.Batch, len(batch)) && s.config.unanswerable(&batch[end]) == nil {
			end++
		}
		var n int
		var err error
		if p, err = s.running(p); err == nil {
			n, err = s.attempt(ctx, p, batch[done:end])
		}
		if n > 0 {
			s.trust.Store(maxRefusals * maxTries)
		}
		done += n
		if end-done > 1 && (sink.IsPermanent(err) || sink.IsUnknown(err)) {
			single = end
		} else if err != nil {
			return done, fmt.Errorf("%s: %w", s.config.Command[0], err)
		}
	}
	return done, nil
}

// unanswerable returns an error if a program could not acknowledge the event.
func (c *Config) unanswerable(e *event.Event) error {
	if c.Ack == Exit || utf8.ValidString(e.ID) && strings.TrimSpace(e.ID) == e.ID && !strings.ContainsFunc(e.ID, unicode.IsControl) {
		return nil
	}
	return sink.Permanent(errors.New("the id of the event is not one line of text, so a program cannot acknowledge it; ack: exit needs no ids"))
}

// running returns a process that can get events: p, or a new one if it has ended.
func (s *programs) running(p *process) (*process, error) {
	if p != nil {
		select {
		case <-p.done:
		case <-p.killed:
		default:
			return p, nil
		}
		if p.kill(nil); !p.ended() {
			return p, errHangs
		}
	}
	p, err := s.start()
	if err != nil {
		return nil, fmt.Errorf("start the program: %w", err)
	}
	return p, nil
}

// attempt sends events to a process, and returns how many leading ones it has acknowledged.
func (s *programs) attempt(ctx context.Context, p *process, events []event.Event) (n int, err error) {
	late := fmt.Errorf("the program was killed, because it did not end within %v; check it, or raise timeout", s.config.Timeout)
	if s.config.Ack == IDs {
		late = fmt.Errorf("the program was killed, because it acknowledged nothing within %v, or closed its standard output; "+
			"it must print and flush the id of each event", s.config.Timeout)
	}
	p.timer = time.AfterFunc(s.config.Timeout, func() { p.kill(late) })
	defer p.timer.Stop()
	defer context.AfterFunc(ctx, func() { p.kill(ctx.Err()) })()
	var lines []byte
	for i := range events {
		lines = appendLine(lines, &events[i])
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = p.in.Write(lines) // an error shows by the acknowledgements that are missing
		if s.config.Ack == Exit {
			_ = p.in.Close()
		}
	}()
	if s.config.Ack == IDs {
		if n = s.acknowledged(p, events); n == len(events) {
			<-sent // or the time is over
			return n, nil
		}
		p.timer.Reset(outputGrace)
	}
	ended := p.ended()
	p.kill(nil)
	<-sent
	switch {
	case ctx.Err() != nil:
		return n, ctx.Err()
	case !ended:
		return n, errHangs
	case p.reason != nil:
		return n, p.reason
	case s.config.Ack == Exit && p.state.Success():
		return len(events), nil
	}
	return n, s.judge(p.state, len(events)-n)
}

// Close implements [sink.Sink]. Each process sees the end of its input, and has until ctx ends,
// at most three seconds, to end.
func (s *programs) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	failures := make([]error, s.config.Processes)
	var closing sync.WaitGroup
	for i := range failures {
		if p := <-s.slots; p != nil {
			closing.Go(func() {
				_ = p.in.Close()
				defer context.AfterFunc(ctx, func() { p.kill(nil) })()
				if !p.ended() {
					failures[i] = errHangs
				}
				p.kill(nil) // closes the files
			})
		}
	}
	closing.Wait()
	s.log.noteLost()
	return errors.Join(failures...)
}
