package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// The exit codes of sysexits.h that have a meaning here, and those of a shell that cannot run
	// a program.
	dataError     = 65
	tempFailure   = 75
	notExecutable = 126
	notFound      = 127
	// maxRefusals is how many events in a row a program may refuse, and maxTries how often
	// informd tries an event that is refused for an unknown reason.
	maxRefusals = 10
	maxTries    = 10
)

var errHangs = errors.New("the process does not end although it was killed: it hangs in the kernel, perhaps on a disk")

// attempt sends events to a process, and returns how many leading ones it has acknowledged.
func (s *programs) attempt(ctx context.Context, p *process, events []event.Event) (n int, err error) {
	late := fmt.Errorf("the program was killed, because it acknowledged no event within %v: with ack: ids, it must print and flush "+
		"the id of each, with ack: exit, it must end; check it, or raise timeout", s.config.Timeout)
	timer := time.AfterFunc(s.config.Timeout, func() { p.kill(late) })
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { p.kill(ctx.Err()) })()
	var lines []byte
	for i := range events {
		lines = sink.FormatCloudEvents.AppendLine(lines, &events[i])
	}
	sent := make(chan int, 1)
	go func() {
		written, _ := p.in.Write(lines) // an error shows by the acknowledgements that are missing
		if s.config.Ack == Exit {
			_ = p.in.Close()
		}
		sent <- written
	}()
	if s.config.Ack == IDs {
		if n = s.acknowledged(p, events, timer); n == len(events) {
			<-sent // or the time is over
			return n, nil
		}
	}
	p.ended()
	reason := p.killed()
	p.kill(nil)
	written := <-sent
	switch {
	case ctx.Err() != nil:
		return n, ctx.Err()
	case reason != nil: // as ever if it has not ended
		return n, reason
	case s.config.Ack == Exit && p.state.Success():
		return len(events), nil
	}
	return n, s.judge(p.state, len(events)-n, written > p.unread)
}

// acknowledged reads the standard output until all events are acknowledged, or it ends, and
// returns how many leading ones are.
func (s *programs) acknowledged(p *process, events []event.Event, timer *time.Timer) (n int) {
	handled := make([]bool, len(events))
	for n < len(events) {
		line, whole, err := p.next()
		switch {
		case err != nil:
			return n
		case whole && acknowledge(events[n:], handled[n:], line): // a part may name another event
			timer.Reset(s.config.Timeout)
		default:
			s.log.print(line)
		}
		for n < len(events) && handled[n] {
			n++
		}
	}
	return n
}

// acknowledge notes which events a line acknowledges, and reports whether there are any.
func acknowledge(events []event.Event, handled []bool, line string) bool {
	for i := range events { // in most cases it is the first one
		if events[i].ID == line && !handled[i] {
			handled[i] = true
			return true
		}
	}
	id, upto := strings.CutPrefix(line, "upto ")
	last := len(events) - 1
	for upto && last >= 0 && events[last].ID != id {
		last--
	}
	for i := 0; upto && i <= last; i++ {
		handled[i] = true
	}
	return upto && last >= 0
}

// unanswerable returns an error if a program could not acknowledge the event.
func (c *Config) unanswerable(e *event.Event) error {
	if c.Ack == Exit || utf8.ValidString(e.ID) && strings.TrimSpace(e.ID) == e.ID && !strings.ContainsFunc(e.ID, unicode.IsControl) {
		return nil
	}
	return sink.Permanent(errors.New("the id of the event is not one line of text, so a program cannot acknowledge it; ack: exit needs no ids"))
}

// judge says what the end of a process means for the first of the events that are left. A program
// that has read none of them has refused none, unless it says so: it cannot work, and would end
// without them as well. About several, a refusal only says that they must go one by one.
func (s *programs) judge(state *os.ProcessState, left int, read bool) error {
	code := state.ExitCode()
	outside := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}
	status, _ := state.Sys().(syscall.WaitStatus)
	stopped := status.Signaled() && slices.Contains(outside, status.Signal())
	broken := code == notExecutable || code == notFound || !read && !stopped && !slices.Contains([]int{0, dataError, tempFailure}, code)
	err := fmt.Errorf("the program ended (%v) with %d events not acknowledged; its output is in the log", state, left)
	if broken {
		err = fmt.Errorf("the program ended (%v) and cannot handle any event; check command and env, its output is in the log", state)
	}
	switch {
	case broken, stopped, code == 0, code == tempFailure:
		return err // it says nothing about the events
	case code == dataError:
		return sink.Permanent(err)
	case left > 1:
		return sink.Unknown(err)
	case s.config.Ack == Exit && s.trust.Add(-maxTries) >= 0:
		return sink.Permanent(err)
	case s.config.Ack == Exit || s.trust.Add(-1) >= 0:
		return sink.Unknown(err)
	}
	return err // it is the program that is broken
}
