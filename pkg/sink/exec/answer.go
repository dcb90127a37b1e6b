package exec

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// The exit codes of sysexits.h that have a meaning here.
	dataError   = 65
	tempFailure = 75
	// maxNoise is how many bytes a process may print that acknowledge nothing, while events wait.
	maxNoise = 1 << 20
	// maxRefusals is how many events in a row a program may refuse, and maxTries how often
	// informd tries an event that is refused for an unknown reason.
	maxRefusals = 10
	maxTries    = 10
)

var (
	errHangs = errors.New("the process does not end although it was killed: it hangs in the kernel, perhaps on a disk")
	errNoise = errors.New("the program printed more than 1 MiB that acknowledges nothing; only ids belong on its standard output")
)

// acknowledged reads the standard output until all events are acknowledged, or it ends, and
// returns how many leading ones are.
func (s *programs) acknowledged(p *process, events []event.Event) (n int) {
	handled := make([]bool, len(events))
	for noise := 0; n < len(events); {
		line, whole, err := p.lines.next()
		if err != nil {
			return n
		}
		// A part of a line may name another event.
		if first, last, ok := find(events[n:], handled[n:], line); ok && whole {
			for i := n + first; i <= n+last; i++ {
				handled[i] = true
			}
			p.timer.Reset(s.config.Timeout)
		} else {
			s.log.print(line)
			if noise += len(line) + 1; noise > maxNoise {
				p.kill(errNoise)
			}
		}
		for n < len(events) && handled[n] {
			n++
		}
	}
	return n
}

// find returns which events a line acknowledges.
func find(events []event.Event, handled []bool, line string) (first, last int, ok bool) {
	for i := range events { // in most cases it is the first one
		if events[i].ID == line && !handled[i] {
			return i, i, true
		}
	}
	id, upto := strings.CutPrefix(line, "upto ")
	for i := len(events) - 1; upto && i >= 0; i-- {
		if events[i].ID == id {
			return 0, i, true
		}
	}
	return 0, 0, false
}

// lineReader reads lines with a bounded buffer.
type lineReader struct {
	*bufio.Reader

	cut bool // the last part was the beginning of a longer line
}

// next returns the next line without its end, or a part of one that is longer than the buffer, or
// that lacks its end. Whole is false for parts.
func (r *lineReader) next() (line string, whole bool, err error) {
	text, err := r.ReadSlice('\n')
	whole = err == nil && !r.cut
	if r.cut = errors.Is(err, bufio.ErrBufferFull); r.cut {
		err = nil
	}
	return strings.TrimSpace(string(text)), whole, err
}

// judge says what the end of a process means for the first of the events that are left. About
// several, a refusal only says that they must go one by one.
func (s *programs) judge(state *os.ProcessState, left int) error {
	err := fmt.Errorf("the program ended (%v) with %d events not acknowledged; its output is in the log", state, left)
	code := state.ExitCode()
	outside := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() && slices.Contains(outside, status.Signal()) {
		code = tempFailure
	}
	switch {
	case code == 0 || code == tempFailure: // it says nothing about the events
		return err
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
