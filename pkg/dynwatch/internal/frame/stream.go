package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/internal/jsonend"
)

// maxFrame bounds one watch frame. No object that the API server takes comes close: etcd refuses
// more than 1.5 MiB by default, of which escapes make six times as much JSON.
const maxFrame = 64 << 20

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
	line, err := s.line()
	if len(line) == 0 {
		return err
	}
	f := s.frames.frame(line, &now.memory)
	switch {
	case err != nil && (f.err != nil || f.end == jsonend.None):
		return err // the line has no end
	case f.err != nil:
		return f.err
	}
	s.take(f, line)
	if f.kind == watch.Error {
		s.object = f.status
		return nil
	}
	for len(now.frames) < maxArrived && s.another() {
		continue
	}
	all := now.frames
	for i := range all[1:] {
		all[i].next = &all[i+1]
	}
	s.kind, s.object = all[0].Kind, &all[0]
	return nil
}

// another takes the next frame if it has arrived and belongs to the same event. What else
// comes is for the next Read.
func (s *stream) another() bool {
	line, _, whole := bytes.Cut(s.begin(), []byte{'\n'})
	if !whole {
		return false
	}
	f := s.frames.frame(line, &s.arrivals[s.turn].memory)
	if f.err != nil || f.kind == watch.Error {
		return false
	}
	s.take(f, line)
	return true
}

// take steps over a frame, to its end or, if it has none, over all of its line, and adds it to the
// event that is being read.
func (s *stream) take(f watchFrame, line []byte) {
	n := f.end
	if n == jsonend.None {
		n = len(line)
	}
	s.window.consume(n)
	if s.kind = f.kind; f.kind != watch.Error {
		now := &s.arrivals[s.turn]
		now.frames = append(now.frames, f.watched)
	}
}

// begin steps over white space and returns what is unread then.
func (s *stream) begin() []byte {
	unread := s.window.unread()
	trimmed := bytes.TrimLeft(unread, " \t\r\n")
	s.window.consume(len(unread) - len(trimmed))
	return trimmed
}

// line reads on until the line of a frame is unread, and returns it. If there is an error, the
// line has no end.
func (s *stream) line() ([]byte, error) {
	for searched := 0; ; {
		unread := s.begin()
		if len(unread) > 0 && unread[0] != '{' {
			return nil, fmt.Errorf("read watch frame: %w", begins(unread[0]))
		}
		if n := bytes.IndexByte(unread[searched:], '\n'); n >= 0 {
			return unread[:searched+n], nil
		}
		searched = len(unread)
		err := s.window.more()
		switch {
		case errors.Is(err, errFull):
			return nil, fmt.Errorf("read watch frame: the frame is larger than %d MiB", maxFrame>>20)
		case errors.Is(err, io.EOF) && searched > 0:
			return s.window.unread(), io.ErrUnexpectedEOF
		case err != nil:
			return s.window.unread(), err
		}
	}
}
