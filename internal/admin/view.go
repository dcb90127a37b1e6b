package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/page"
	"github.com/informd/informd/internal/tail"
)

// Past is what the journal keeps of an object.
type Past struct {
	Object string
	// Limit is the largest number of events that the journal keeps of an object.
	Limit int
	// Each calls take with the kept events, oldest first, as CloudEvents. It holds a few of
	// them in memory at a time.
	Each func(ctx context.Context, take func(json.RawMessage) error) error
}

// History is the answer about an object: GET /history.
type History struct {
	Object string `json:"object"`
	// Limit is [Past.Limit].
	Limit int `json:"historyPerObject"`
	// Events are the kept events, oldest first, as CloudEvents.
	Events []json.RawMessage `json:"events"`
}

// Gaps is the answer to GET /gaps.
type Gaps struct {
	// Events are the kept gaps, oldest first, as CloudEvents.
	Events []json.RawMessage `json:"events"`
}

func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	found, err := s.options.Operator.History(r.Context(), r.FormValue("object"))
	if err != nil {
		return err
	}
	name, err := json.Marshal(found.Object)
	if err != nil {
		return fmt.Errorf("name %s: %w", found.Object, err)
	}
	head := fmt.Sprintf(`{"object":%s,"historyPerObject":%d,"events":[`, name, found.Limit)
	return s.list(w, r, head, found.Each)
}

func (s *Server) gaps(w http.ResponseWriter, r *http.Request) error {
	return s.list(w, r, `{"events":[`, s.options.Operator.EachGap)
}

// list answers with the events of each as they come, behind the head of a JSON document, so that
// no answer is in memory as a whole.
func (s *Server) list(w http.ResponseWriter, r *http.Request, head string, each func(context.Context, func(json.RawMessage) error) error) error {
	w.Header().Set("Content-Type", "application/json")
	out, before := display.JSONWriter(w), head
	var gone error
	err := each(r.Context(), func(e json.RawMessage) error {
		_, gone = out.Write(append([]byte(before), e...))
		before = ","
		return gone
	})
	switch {
	case gone != nil:
		return nil //nolint:nilerr // the client has gone, and gets nothing more
	case err != nil && before == head:
		return err
	case err != nil:
		s.abort(r, err)
	case before == head:
		_, err = io.WriteString(out, head)
	}
	if err == nil {
		_, err = io.WriteString(out, "]}\n")
	}
	return err
}

const (
	// tailPause is the time between two messages of a tail with a limit per second.
	tailPause = time.Second
	// tailBeat is the time between two messages of a tail without events, so that both sides
	// notice a broken connection.
	tailBeat = 10 * time.Second
	// tailBuffer is what is sent at once, in bytes; a larger event is sent alone.
	tailBuffer = 64 << 10
)

// tail sends live events as server-sent events until the reader goes away, does not read, or
// informd ends. The query has the fields of [tail.Filter], and perSecond: how many events a
// second are sent at most, the newest, 0 for all. Messages beside events:
//
//   - "skipped" {"events":n}: so many events were left out in all because of perSecond, or because the
//     reader is slow; with a filter it may count events that the filter leaves out
//   - "failed" {"events":n}: for so many events in all the condition failed
func (s *Server) tail(w http.ResponseWriter, r *http.Request) error {
	wants, err := tail.Filter{
		Resource: r.FormValue("resource"), Namespace: r.FormValue("namespace"), Name: r.FormValue("name"),
		Op: r.FormValue("op"), Condition: r.FormValue("condition"),
	}.Compile()
	if err != nil {
		return Unknown("%v", err)
	}
	perSecond := 0
	if text := r.FormValue("perSecond"); text != "" {
		if perSecond, err = strconv.Atoi(text); err != nil || perSecond < 0 {
			return Unknown("perSecond=%q: it must be a number of events, or 0 for all", text)
		}
	}
	reader, err := s.options.Operator.Tail(wants)
	if err != nil {
		return err
	}
	defer reader.Close()
	sending := tailing{out: bufio.NewWriterSize(page.NewSender(w), tailBuffer), wants: wants, most: perSecond}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	if errors.Is(sending.run(ctx, reader), os.ErrDeadlineExceeded) {
		s.dropSlow()
	}
	return nil // the status was sent
}

// tailing is one tail while it is sent.
type tailing struct {
	out   *bufio.Writer // keeps its first error for Flush
	wants *tail.Wants
	most  int // per second, 0 for all

	skipped, failed uint64 // when last reported
}

// run sends until there is an error: that of ctx, of the reader, or of the connection.
func (t *tailing) run(ctx context.Context, reader *tail.Reader) error {
	t.beat() // the reader learns that it has begun
	for {
		if err := t.out.Flush(); err != nil {
			return err
		}
		if err := t.rest(ctx); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, tailBeat)
		lines, err := reader.Next(limited, t.most)
		cancel()
		switch {
		case err == nil:
			for _, l := range lines {
				t.message("", l.JSON)
			}
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			t.beat()
		default:
			return err
		}
		t.report("skipped", reader.Missed, &t.skipped)
		t.report("failed", t.wants.Failed.Load(), &t.failed)
	}
}

// rest waits after a message of a tail with a limit.
func (t *tailing) rest(ctx context.Context) error {
	if t.most == 0 {
		return nil
	}
	select {
	case <-time.After(tailPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report tells how many events were not shown for a reason, in all, if these are more than before.
func (t *tailing) report(reason string, events uint64, before *uint64) {
	if events > *before {
		*before = events
		t.message(reason, fmt.Appendf(nil, `{"events":%d}`, events))
	}
}

func (t *tailing) beat() { _, _ = t.out.WriteString(page.Beat) }

func (t *tailing) message(kind string, data []byte) {
	_, _ = t.out.Write(page.AppendMessage(t.out.AvailableBuffer(), kind, data))
}
