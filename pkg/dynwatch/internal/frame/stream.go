package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/jsonscan"
)

// maxFrame bounds one watch frame, as client-go's own decoder does.
const maxFrame = 16 << 20

// stream reads the frames of one watch. client-go calls Read and then the two
// decoders ([envelopeDecoder], [objectDecoder]) for each frame, on one goroutine;
// Close may come from another.
//
// The frame's bytes do not go through client-go, whose buffer only grows: Read
// does all the work and leaves its result here for the decoders to pick up.
type stream struct {
	body   io.Closer
	closed atomic.Bool
	window window
	frames *Normaliser
	// arrivals are the frames of the event that is being read and of the one before it,
	// in turn: client-go hands an event over when the one before is done with.
	arrivals [2]arrival
	turn     int
	// kind and object are what the decoders pick up.
	kind   watch.EventType
	object runtime.Object
}

// arrival is what comes in one event, and the memory that it lies in.
type arrival struct {
	frames []Watched
	memory Memory
	// calm counts the events in a row that used less than a quarter of frames.
	calm int
}

// reset has the arrival used again. Frames that a burst needed are given back once
// events have been small for a while.
func (a *arrival) reset() {
	if a.calm++; len(a.frames) >= (cap(a.frames)+3)/4 {
		a.calm = 0
	}
	if a.calm >= calmReads {
		a.frames, a.calm = nil, 0
	}
	a.frames = a.frames[:0]
	a.memory.Reset()
}

// maxArrived bounds how many frames come in one event.
const maxArrived = 64

// Read reads the next frame, and with it those that have arrived already. It leaves p
// alone and returns 0 bytes, which client-go takes for a frame without bytes. It blocks
// until a frame is complete.
// The error is [io.EOF] if the body ends between two frames and
// [io.ErrUnexpectedEOF] if it ends within one; any other ends the watch, too.
//
// A frame is expected to be one line, as the API server and all its kin write it.
// A line that is only the beginning of a frame is taken for pretty-printed, and
// the frame then ends where its brackets do.
func (s *stream) Read([]byte) (int, error) {
	err := s.next()
	if err != nil && s.closed.Load() {
		// What a body says that was closed under a Read is no news: without this
		// client-go may deliver it, with HTTP/2, after the watch was stopped.
		err = io.EOF
	}
	return 0, err
}

// Close closes the body, which ends a Read that is under way.
func (s *stream) Close() error {
	s.closed.Store(true)
	return s.body.Close()
}

func (s *stream) next() error {
	s.turn = 1 - s.turn
	now := &s.arrivals[s.turn]
	now.reset()
	if err := s.first(); err != nil {
		return err
	}
	if s.kind == watch.Error {
		return nil
	}
	for len(now.frames) < maxArrived && s.another() {
		continue
	}
	all := now.frames
	for i := range all[1:] {
		all[i].next = &all[i+1]
	}
	s.object = &all[0]
	return nil
}

// another takes the next frame if it has arrived and is a usual one. What else comes
// is for the next Read.
func (s *stream) another() bool {
	unread := s.window.unread()
	line := bytes.TrimLeft(unread, " \t\r\n")
	skipped := len(unread) - len(line)
	n := bytes.IndexByte(line, '\n')
	if n < 0 {
		return false
	}
	line = line[:n]
	if kind, from := usualEnvelope(line); from == 0 || string(kind) == string(watch.Error) {
		return false
	}
	f := s.frames.frame(line, &s.arrivals[s.turn].memory)
	if f.err != nil || f.end == jsonscan.None {
		return false
	}
	s.window.consume(skipped + f.end)
	s.arrive(f.watched)
	return true
}

// first takes the next frame, whatever it is.
func (s *stream) first() error {
	if err := s.begin(); err != nil {
		return err
	}
	n, err := s.line()
	switch {
	case err == nil:
		return s.accept(n)
	case errors.Is(err, errFull):
		return s.skipLarge()
	default:
		return s.acceptLast(err)
	}
}

// begin steps over white space to where a frame begins.
func (s *stream) begin() error {
	for {
		unread := s.window.unread()
		trimmed := bytes.TrimLeft(unread, " \t\r\n")
		s.window.consume(len(unread) - len(trimmed))
		if len(trimmed) == 0 {
			if err := s.window.more(); err != nil {
				return err
			}
			continue
		}
		if trimmed[0] != '{' {
			return fmt.Errorf("read watch frame: %w", begins(trimmed[0]))
		}
		return nil
	}
}

// line reads on until a whole line is unread, and returns its length. If there is
// an error, all that is unread belongs to the line.
func (s *stream) line() (int, error) {
	for searched := 0; ; {
		unread := s.window.unread()
		if n := bytes.IndexByte(unread[searched:], '\n'); n >= 0 {
			return searched + n, nil
		}
		searched = len(unread)
		if err := s.window.more(); err != nil {
			return searched, err
		}
	}
}

// accept takes the frame on the line of n bytes, or the frame that begins there.
func (s *stream) accept(n int) error {
	f := s.frames.frame(s.window.unread()[:n], &s.arrivals[s.turn].memory)
	if f.cut {
		size, err := s.extend(n)
		if err != nil {
			return err
		}
		if size != n {
			n = size
			f = s.frames.frame(s.window.unread()[:n], &s.arrivals[s.turn].memory)
		}
	}
	return s.deliver(f, n)
}

// deliver leaves f for the decoders and steps over it: to its end, or over all of
// the n bytes if it has none.
func (s *stream) deliver(f watchFrame, n int) error {
	if f.err != nil {
		return f.err
	}
	if f.end != jsonscan.None {
		n = f.end
	}
	s.window.consume(n)
	s.kind = f.kind
	if f.kind == watch.Error {
		s.object = f.status
		return nil
	}
	s.arrive(f.watched)
	return nil
}

// arrive adds a frame to the event that is being read.
func (s *stream) arrive(w Watched) {
	now := &s.arrivals[s.turn]
	now.frames = append(now.frames, w)
}

// extend reads on until the frame that begins on the line of n bytes is complete,
// and returns its size. It returns n if the following lines cannot belong to it:
// then the line is a frame that was cut short.
func (s *stream) extend(n int) (int, error) {
	var b jsonscan.Brackets
	for fed, checked := 0, n; ; {
		unread := s.window.unread()
		size, done := b.Feed(unread[fed:])
		fed += size
		if done {
			return fed, nil
		}
		// Twice the size each time, so that a large frame is not checked over and
		// over. Only whole lines: no token goes on in a next one.
		if lines := unread[:bytes.LastIndexByte(unread[:fed], '\n')+1]; len(lines) >= 2*checked {
			check := jsonscan.Scanner{Data: lines}
			if check.Value(0, 0) == jsonscan.None && !check.Cut {
				return n, nil
			}
			checked = len(lines)
		}
		if err := s.window.more(); err != nil {
			return 0, inFrame(err)
		}
	}
}

// acceptLast takes what is unread when the body has ended with err, if that is a
// whole frame. The next Read then returns the error.
func (s *stream) acceptLast(err error) error {
	unread := s.window.unread()
	f := s.frames.frame(unread, &s.arrivals[s.turn].memory)
	if f.err != nil || f.end == jsonscan.None {
		return inFrame(err)
	}
	return s.deliver(f, len(unread))
}

// skipLarge reports the object of a frame larger than maxFrame as malformed and
// steps over the frame's line, as if it were not there: watching the same
// revision again would only meet it again.
func (s *stream) skipLarge() error {
	unread := s.window.unread()
	f := s.frames.frame(unread, &s.arrivals[s.turn].memory)
	if f.err != nil || f.end != jsonscan.None || f.kind == watch.Error {
		return s.deliver(f, len(unread))
	}
	bad := f.watched.Err
	bad.Reason = fmt.Sprintf("the watch frame is larger than %d MiB", maxFrame>>20)
	if err := s.deliver(f, len(unread)); err != nil {
		return err
	}
	for {
		if err := s.window.more(); err != nil {
			return inFrame(err)
		}
		unread = s.window.unread()
		n := bytes.IndexByte(unread, '\n')
		if n >= 0 {
			unread = unread[:n]
		}
		s.window.consume(len(unread))
		bad.Size += len(unread)
		if n >= 0 {
			return nil
		}
	}
}

// inFrame is the error for a body that ends with err where a frame is not complete.
func inFrame(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, errFull):
		return fmt.Errorf("read watch frame: the frame is larger than %d MiB", maxFrame>>20)
	}
	return err
}
