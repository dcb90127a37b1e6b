package stdout_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/stdout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is a standard output that can refuse or hold up what it is given.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	calls   int
	failure error // of every write, after room more bytes
	room    int
	stalled chan struct{} // closed by heal; nil if not stalled
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	stalled := o.stalled
	o.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	if o.failure == nil {
		return o.text.Write(p)
	}
	n := min(o.room, len(p))
	o.room -= n
	o.text.Write(p[:n])
	return n, o.failure
}

// fail lets room more bytes in and then refuses with err.
func (o *output) fail(room int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room, o.failure = room, err
}

func (o *output) stall() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stalled = make(chan struct{})
}

func (o *output) heal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failure = nil
	if o.stalled != nil {
		close(o.stalled)
		o.stalled = nil
	}
}

// startLine takes a half line at the end away.
func (o *output) startLine() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Truncate(bytes.LastIndexByte(o.text.Bytes(), '\n') + 1)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func openOn(t *testing.T, format sink.Format, out io.Writer) sink.Sink {
	t.Helper()
	env := sinktest.Env(t)
	env.Stdout = out
	s, err := (&stdout.Config{Format: format}).Open(t.Context(), env)
	sinktest.Must(t, err)
	return s
}

// sinkOn opens a sink, and closes it when the test ends.
func sinkOn(t *testing.T, format sink.Format, out io.Writer) sink.Sink {
	t.Helper()
	return sinktest.Open(t, &stdout.Config{Format: format}, func(env *sink.Env) { env.Stdout = out })
}

func closeSink(t *testing.T, s sink.Sink) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Target{Lanes: stdout.Driver().Lanes, Setup: func(*testing.T) *sinktest.Destination {
		out := &output{}
		return &sinktest.Destination{
			Open: func(t *testing.T) sink.Sink {
				t.Helper()
				out.startLine() // another process does not go on in a torn line
				return openOn(t, sink.FormatCloudEvents, out)
			},
			Received: func(t *testing.T) []sinktest.Record {
				t.Helper()
				text := out.String()
				// A line that the output tore apart counts when it is whole.
				all, err := sinktest.FromLines([]byte(text[:strings.LastIndexByte(text, '\n')+1]))
				sinktest.Must(t, err)
				return all
			},
			Break: func(_ *testing.T, after int) { out.fail(after*400+10, syscall.ENOSPC) },
			Stall: func(*testing.T) { out.stall() },
			Heal:  func(*testing.T) { out.heal() },
		}
	}})
}

func lines(events []event.Event) string {
	var text []byte
	for i := range events {
		text = append(events[i].AppendJSON(text), '\n')
	}
	return string(text)
}

// TestPortions: a large batch is written bit by bit, in order.
func TestPortions(t *testing.T) {
	out := &output{}
	s := sinkOn(t, sink.FormatCloudEvents, out)
	events := sinktest.Events(10)
	for i := range events {
		events[i].Data = form.CloseData(append(form.OpenData(nil), `{"x":"`+strings.Repeat("x", 100<<10)+`"}`...))
	}
	all := lines(events)
	third := strings.Index(all, events[3].ID) // in the fourth line
	out.fail(third, syscall.ENOSPC)
	if n, err := s.Write(t.Context(), events); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Write = %d, %v; want 3 and ENOSPC", n, err)
	}
	out.heal()
	before := out.calls
	sinktest.MustWrite(t, s, events[3:])
	if calls := out.calls - before; calls != 3 {
		t.Errorf("%d writes for 700 KB, want 3", calls)
	}
	if out.String() != all {
		t.Error("what was written is not the lines of the events in order")
	}
}

// TestTornLines cuts the output at every byte of a batch and a half: n counts
// whole lines, and in the end no half line is left in the middle.
func TestTornLines(t *testing.T) {
	events := sinktest.Events(3)
	all := lines(events)
	for room := range len(all) {
		out := &output{}
		s := openOn(t, sink.FormatCloudEvents, out)
		out.fail(room, syscall.ENOSPC)
		n, err := s.Write(t.Context(), events)
		if want := strings.Count(all[:room], "\n"); n != want || !errors.Is(err, syscall.ENOSPC) || sink.IsPermanent(err) {
			t.Fatalf("after %d bytes Write = %d, %v; want %d and ENOSPC", room, n, err, want)
		}
		// A second failure, with no byte or in the middle of the torn line again.
		out.fail(room%2, syscall.ENOSPC)
		if again, err := s.Write(t.Context(), events[n:]); again > 1 || err == nil {
			t.Fatalf("after %d bytes the second Write = %d, %v", room, again, err)
		}
		out.heal()
		if rest, err := s.Write(t.Context(), events[n:]); rest != len(events)-n || err != nil {
			t.Fatalf("after %d bytes the third Write = %d, %v", room, rest, err)
		}
		got, err := sinktest.FromLines([]byte(out.String()))
		if err != nil {
			t.Fatalf("after %d bytes: %v", room, err)
		}
		if last := got[len(got)-1].Attributes["id"]; len(got) < 3 || last != events[2].ID {
			t.Errorf("after %d bytes: %d lines, the last is %s", room, len(got), last)
		}
		closeSink(t, s)
	}
}

func TestShortWriteIsAnError(t *testing.T) {
	out := &output{}
	out.fail(10, nil)
	s := sinkOn(t, sink.FormatCloudEvents, shortWriter{out})
	if n, err := s.Write(t.Context(), sinktest.Events(1)); n != 0 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Write = %d, %v, want 0 and ErrShortWrite", n, err)
	}
}

// shortWriter breaks the rule that a short write has an error.
type shortWriter struct{ out io.Writer }

func (w shortWriter) Write(p []byte) (int, error) { return w.out.Write(p[:10]) }

func TestBrokenPipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	sinktest.Must(t, err)
	defer func() { _ = writer.Close() }()
	s := sinkOn(t, sink.FormatCloudEvents, writer)
	events := sinktest.Events(2)
	sinktest.MustWrite(t, s, events[:1])
	sinktest.Must(t, reader.Close())
	n, err := s.Write(t.Context(), events[1:])
	if n != 0 || !errors.Is(err, syscall.EPIPE) || !strings.Contains(err.Error(), "the reader has closed the pipe") {
		t.Errorf("Write = %d, %v, want 0 and a clear EPIPE", n, err)
	}
}

// TestLatePipe: nobody reads the pipe while Write waits, then somebody does.
func TestLatePipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	sinktest.Must(t, err)
	s := openOn(t, sink.FormatCloudEvents, writer)
	big := sinktest.Big(1, 1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if n, err := s.Write(ctx, big); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Write = %d, %v, want 0 and the deadline", n, err)
	}
	read := make(chan []byte)
	go func() {
		text, _ := io.ReadAll(reader) // of a pipe that is closed below
		read <- text
	}()
	sinktest.MustWrite(t, s, big)
	closeSink(t, s)
	sinktest.Must(t, writer.Close())
	if got := string(<-read); got != lines(big)+lines(big) {
		t.Errorf("the pipe brought %d bytes, want the event twice, %d bytes", len(got), 2*len(lines(big)))
	}
}

// TestNonBlockingPipe: another process that shares the pipe makes it non-blocking, and the reader
// is slower than the sink.
func TestNonBlockingPipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	sinktest.Must(t, err)
	defer func() { _ = writer.Close() }()
	out := os.NewFile(uintptr(blockingCopy(t, writer)), "stdout")
	defer func() { _ = out.Close() }()
	s := sinkOn(t, sink.FormatCloudEvents, out)
	setNonblock(t, writer)
	events := sinktest.Big(8, 100<<10)
	want := lines(events)
	read := make(chan string)
	go func() {
		var text strings.Builder
		for part := make([]byte, 3000); text.Len() < len(want); {
			n, err := reader.Read(part)
			if err != nil {
				t.Error(err)
				break
			}
			text.Write(part[:n])
		}
		_ = reader.Close()
		read <- text.String()
	}()
	if n, err := s.Write(t.Context(), events); n != len(events) || err != nil {
		t.Errorf("Write = %d, %v, want %d and no error", n, err, len(events))
		_, _ = writer.Close(), out.Close()
	}
	if <-read != want {
		t.Error("the reader did not get each line once")
	}
	if n, err := s.Write(t.Context(), events[:1]); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("without a reader Write = %d, %v, want 0 and EPIPE", n, err)
	}
}

// TestNonBlockingPipeOfAFastReader: the pauses do not bound what a reader gets that empties the pipe at once.
func TestNonBlockingPipeOfAFastReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{}
		s := sinkOn(t, sink.FormatCloudEvents, pipe{out})
		events, began := sinktest.Big(20, 1<<20), time.Now()
		if n, err := s.Write(t.Context(), events); n != len(events) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		if took := time.Since(began); took > 200*time.Millisecond || out.text.String() != lines(events) {
			t.Errorf("20 MiB took %v, %d bytes", took, out.text.Len())
		}
	})
}

// pipe is full after each write.
type pipe struct{ out io.Writer }

func (p pipe) Write(b []byte) (int, error) {
	n, err := p.out.Write(b[:min(len(b), 64<<10)])
	if err == nil && n < len(b) {
		err = syscall.EAGAIN
	}
	return n, err
}

// TestNonBlockingPipeWithoutReader: the end of its context ends a Write that waits, so that Close
// does not wait for a reader.
func TestNonBlockingPipeWithoutReader(t *testing.T) {
	reader, writer, err := os.Pipe()
	sinktest.Must(t, err)
	defer func() { _, _ = reader.Close(), writer.Close() }()
	out := os.NewFile(uintptr(blockingCopy(t, writer)), "stdout")
	defer func() { _ = out.Close() }()
	s := openOn(t, sink.FormatCloudEvents, out)
	setNonblock(t, writer)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if n, err := s.Write(ctx, sinktest.Big(1, 1<<20)); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Write = %d, %v, want 0 and the deadline", n, err)
	}
	closeSink(t, s) // and goleak finds no goroutine that waits
}

// blockingCopy returns another descriptor of the pipe, which is blocking as that of a shell is.
func blockingCopy(t *testing.T, f *os.File) (fd int) {
	t.Helper()
	control(t, f, func(of int) (err error) {
		if err = syscall.SetNonblock(of, false); err == nil {
			fd, err = syscall.Dup(of)
		}
		return err
	})
	return fd
}

// setNonblock makes the pipe non-blocking for all of its descriptors.
func setNonblock(t *testing.T, f *os.File) {
	t.Helper()
	control(t, f, func(fd int) error { return syscall.SetNonblock(fd, true) })
}

func control(t *testing.T, f *os.File, change func(fd int) error) {
	t.Helper()
	conn, err := f.SyscallConn()
	sinktest.Must(t, err)
	if failed := conn.Control(func(fd uintptr) { err = change(int(fd)) }); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
}

func TestValidate(t *testing.T) {
	if config := stdout.Driver().New(); len(config.Validate()) != 0 {
		t.Errorf("the defaults are wrong: %v", config.Validate())
	}
	for _, format := range []sink.Format{"", "json", "Pretty"} {
		problems := (&stdout.Config{Format: format}).Validate()
		if len(problems) != 1 || problems[0].Key != "format" || !strings.Contains(problems[0].Message, "cloudevents") {
			t.Errorf("format %q: %v, want one problem that names the formats", format, problems)
		}
	}
}
