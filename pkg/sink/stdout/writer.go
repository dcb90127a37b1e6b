package stdout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/informd/informd/pkg/event"
)

const (
	// portion is about how many bytes are written at a time.
	portion = 256 << 10
	// maxIdleBuffer is the most memory that is kept from one Write to the next: more than
	// a portion of events of usual size takes.
	maxIdleBuffer = 1 << 20
	// fullPause is the longest pause between two attempts on a full output that does not block. The first one
	// is short: a pipe takes 64 KiB at a time.
	fullPause, firstPause = 10 * time.Millisecond, 100 * time.Microsecond
)

// Sink writes events to one output. A write to a pipe without a reader blocks
// without a limit and cannot be cancelled. A goroutine of the sink writes, so that Write
// can return when its context ends.
type Sink struct {
	render renderer
	// writes hands a buffer to the goroutine, results brings back what became
	// of it. Each buffer has one result.
	writes  chan write
	results chan result
	// underWay says that a Write gave up before its result was there.
	underWay bool
	// buffer is the sink's own unless a write is under way.
	buffer []byte
	// torn is the end of a line whose beginning was written when the output
	// failed. It comes first when the output works again, so that there is no
	// half line in the middle.
	torn []byte
}

type write struct {
	ctx    context.Context //nolint:containedctx // of the call of Write
	buffer []byte
}

type result struct {
	buffer []byte
	n      int
	err    error
}

func open(out io.Writer, render renderer) *Sink {
	s := &Sink{render: render, writes: make(chan write), results: make(chan result, 1)}
	go s.run(out)
	return s
}

// run writes what it is handed until the sink is closed. It never blocks on the
// results: there is room for the only one that can be outstanding.
func (s *Sink) run(out io.Writer) {
	defer close(s.results)
	for w := range s.writes {
		n, err := writeAll(w.ctx, out, w.buffer)
		s.results <- result{w.buffer, n, err}
	}
}

// writeAll writes all of p and returns how many bytes out took. Each process that shares a pipe or a terminal can
// make it non-blocking. A full one then answers EAGAIN, which is no failure.
func writeAll(ctx context.Context, out io.Writer, p []byte) (n int, err error) {
	for pause := firstPause; ; pause = min(2*pause, fullPause) {
		written, err := out.Write(p[n:])
		if n += written; written > 0 {
			pause = firstPause
		}
		switch {
		case err == nil && n < len(p):
			return n, io.ErrShortWrite
		case !errors.Is(err, syscall.EAGAIN):
			return n, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return n, fmt.Errorf("wait for the reader: %w", ctx.Err())
		}
	}
}

// Write writes the batch in portions, each with one call of the output's Write. After an
// error n counts the events whose lines were written to their end. When ctx ends first,
// the output may still take a portion later; the next Write waits for that.
func (s *Sink) Write(ctx context.Context, batch []event.Event) (n int, err error) {
	for n < len(batch) && err == nil {
		var written int
		written, err = s.writePortion(ctx, batch[n:])
		n += written
	}
	return n, err
}

// writePortion writes as many leading events as make a portion, at least one.
func (s *Sink) writePortion(ctx context.Context, batch []event.Event) (int, error) {
	if s.underWay {
		// What became of the events is of no interest: their Write has returned,
		// and the caller writes them again.
		if _, err := s.await(ctx); s.underWay {
			return 0, err
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("write to standard output: %w", err)
	}
	buffer := append(s.buffer[:0], s.torn...)
	ends := make([]int, 0, len(batch))
	for i := 0; i < len(batch) && len(buffer) < portion; i++ {
		buffer = s.render(buffer, &batch[i])
		ends = append(ends, len(buffer))
	}
	s.writes <- write{ctx, buffer} // the goroutine is idle and takes it at once
	s.underWay = true
	written, err := s.await(ctx)
	if err == nil {
		return len(ends), nil
	}
	n := 0
	for n < len(ends) && ends[n] <= written {
		n++
	}
	return n, err
}

// await waits for the result of the write under way and returns how many bytes
// the output took.
func (s *Sink) await(ctx context.Context) (int, error) {
	var r result
	select {
	case r = <-s.results:
	default:
		select {
		case r = <-s.results:
		case <-ctx.Done():
			return 0, fmt.Errorf("write to standard output: the reader is slow: %w", ctx.Err())
		}
	}
	s.underWay = false
	if r.n > 0 { // else what was torn before still is
		s.torn = append(s.torn[:0], unfinished(r.buffer, r.n)...)
	}
	s.buffer = r.buffer
	if cap(s.buffer) > maxIdleBuffer {
		s.buffer = nil
	}
	return r.n, explain(r.err)
}

// unfinished returns what is missing of the line that the first n bytes, at
// least one, end in. A buffer always ends with a line.
func unfinished(buffer []byte, n int) []byte {
	if buffer[n-1] == '\n' {
		return nil
	}
	return buffer[n : n+bytes.IndexByte(buffer[n:], '\n')+1]
}

func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("write to standard output: the reader has closed the pipe: %w", err)
	default:
		return fmt.Errorf("write to standard output: %w", err)
	}
}

// Close ends the sink's goroutine. A line that a failure tore stays so. If an earlier write is still under way it
// waits for it until ctx ends; the goroutine then ends with that write.
func (s *Sink) Close(ctx context.Context) error {
	close(s.writes)
	if s.underWay {
		if _, err := s.await(ctx); s.underWay {
			return fmt.Errorf("close: %w", err)
		}
	}
	<-s.results // closed when the goroutine ends, which nothing holds up any more
	return nil
}
