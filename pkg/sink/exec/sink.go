package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// closeGrace is how long a process may take to end after the end of its input.
const closeGrace = 3 * time.Second

// programs is an open sink. Write may be called concurrently, as often as there are slots.
type programs struct {
	config *Config
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

// running returns a process that can get events: p, or a new one if it has ended.
func (s *programs) running(p *process) (*process, error) {
	if p != nil {
		select {
		case <-p.done:
		case <-p.ending:
		default:
			return p, nil
		}
		if p.kill(nil); !p.ended() {
			return p, errHangs
		}
	}
	return s.start()
}

// Close implements [sink.Sink]. Each process sees the end of its input, and has until ctx ends,
// at most three seconds, to end. What it prints goes to the log.
func (s *programs) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	failures := make([]error, s.config.Processes)
	var closing sync.WaitGroup
	for i := range failures {
		if p := <-s.slots; p != nil {
			closing.Go(func() {
				defer context.AfterFunc(ctx, func() { p.kill(nil) })()
				_ = p.in.Close()
				_, _ = io.Copy(&output{log: s.log}, p.lines) // which would hold it up
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
