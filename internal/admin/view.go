package admin

import (
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
	"github.com/informd/informd/internal/sse"
	"github.com/informd/informd/internal/tail"
)

// Viewer is the part of [Operator] that shows objects.
type Viewer interface {
	// History returns what the journal keeps of an object: <resource>[.<group>]/[<namespace>/]<name>.
	History(ctx context.Context, object string) (Past, error)
	// EachGap calls take with the gaps that the journal keeps, oldest first, as CloudEvents.
	EachGap(ctx context.Context, take func(json.RawMessage) error) error
	// Tail returns a reader of the events from now on; see [tail.Feed.Open]. The caller closes it.
	Tail(wants *tail.Wants, lossy bool) (*tail.Reader, error)
}

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
	// tailPause is the time between two messages of a tail with a limit per second: people read
	// no faster, and each message wakes two processes.
	tailPause = 200 * time.Millisecond
	// tailBeat is the time between two messages of a tail without events, so that both sides
	// notice a broken connection.
	tailBeat = 10 * time.Second
)

// tail sends live events as server-sent events until the reader goes away, does not keep up, or
// informd ends. The query has the fields of [tail.Filter], and perSecond: how many events a
// second are sent at most, 0 for all. Messages beside events:
//
//   - "skipped" {"events":n}: so many events were left out because of perSecond; with
//     a filter it may count events that the filter leaves out
//   - "failed" {"events":n}: for so many events the condition failed
//   - "end" {"reason":"…"}: the last message
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
	reader, err := s.options.Operator.Tail(wants, perSecond > 0)
	if err != nil {
		return err
	}
	defer reader.Close()
	sending := tailing{out: sse.New(w), wants: wants, most: perSecond}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	err = sending.run(ctx, reader)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.dropSlow()
	case errors.Is(err, tail.ErrBehind):
		s.dropSlow()
		_ = sending.notify("end", map[string]any{"reason": err.Error()}) // the reader may have gone
	}
	return nil // the status was sent
}

// tailing is one tail while it is sent.
type tailing struct {
	out   *sse.Writer
	wants *tail.Wants
	most  int // per second, 0 for all

	second        time.Time // the beginning of the current one
	sent          int       // in this second
	skipped       uint64    // in all
	missed        uint64    // by the reader, in all
	toldOf, wrong uint64    // of skipped and of failed conditions, when last told
}

// run sends until there is an error: that of ctx, of the reader, or of the connection.
func (t *tailing) run(ctx context.Context, reader *tail.Reader) error {
	if err := t.out.Beat(); err != nil { // the reader learns that it has begun
		return err
	}
	for {
		limited, cancel := context.WithTimeout(ctx, tailBeat)
		lines, err := reader.Next(limited)
		cancel()
		switch {
		case err == nil:
			err = t.out.Send(t.messages(lines))
			t.missed = reader.Missed
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			err = t.out.Beat()
		}
		if err == nil {
			err = t.report()
		}
		if err != nil {
			return err
		}
		if t.most > 0 {
			pause := time.NewTimer(tailPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// messages are the events to send.
func (t *tailing) messages(lines []tail.Line) (text []byte) {
	for _, l := range lines {
		if now := time.Now(); now.Sub(t.second) >= time.Second {
			t.second, t.sent = now, 0
		}
		if t.most > 0 && t.sent >= t.most {
			t.skipped++
			continue
		}
		t.sent++
		text = sse.Append(text, "", l.JSON)
	}
	return text
}

// report tells of events that were not shown.
func (t *tailing) report() error {
	if out := t.skipped + t.missed; out > t.toldOf {
		if err := t.notify("skipped", map[string]any{"events": out}); err != nil {
			return err
		}
		t.toldOf = out
	}
	if failed := t.wants.Failed.Load(); failed > t.wrong {
		if err := t.notify("failed", map[string]any{"events": failed}); err != nil {
			return err
		}
		t.wrong = failed
	}
	return nil
}

// notify sends a message that is no event.
func (t *tailing) notify(kind string, what map[string]any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("notify of %s: %w", kind, err)
	}
	return t.out.Send(sse.Append(nil, kind, text))
}
