package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/informd/informd/internal/tail"
)

// Viewer is the part of [Operator] that shows objects.
type Viewer interface {
	// History returns what the journal keeps of an object: <resource>[.<group>]/[<namespace>/]<name>.
	History(ctx context.Context, object string) (History, error)
	// Gaps returns the gaps of targets that the journal keeps, oldest first, as CloudEvents.
	Gaps(ctx context.Context) ([]json.RawMessage, error)
	// Tail returns a reader of the events from now on; see [tail.Feed.Open]. The caller closes it.
	Tail(wants *tail.Wants, lossy bool) (*tail.Reader, error)
}

// History is the answer about an object: GET /history.
type History struct {
	Object string `json:"object"`
	// Limit is the largest number of events that the journal keeps of an object.
	Limit int `json:"historyPerObject"`
	// Events are the kept events, oldest first, as CloudEvents.
	Events []json.RawMessage `json:"events"`
}

func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	found, err := s.options.Operator.History(r.Context(), r.FormValue("object"))
	return writeJSON(w, found, err)
}

func (s *Server) gaps(w http.ResponseWriter, r *http.Request) error {
	found, err := s.options.Operator.Gaps(r.Context())
	return writeJSON(w, map[string][]json.RawMessage{"events": found}, err)
}

const (
	// tailPatience is how long a reader may take to read what was sent before informd drops it.
	tailPatience = 10 * time.Second
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
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	sending := tailing{w: w, control: http.NewResponseController(w), wants: wants, most: perSecond}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-s.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	err = sending.run(ctx, reader)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.refused.WithLabelValues("slow").Inc()
	case errors.Is(err, tail.ErrBehind):
		s.refused.WithLabelValues("slow").Inc()
		_ = sending.notify("end", map[string]any{"reason": err.Error()}) // the reader may have gone
	}
	return nil // the status was sent
}

// tailing is one tail while it is sent.
type tailing struct {
	w       http.ResponseWriter
	control *http.ResponseController
	wants   *tail.Wants
	most    int // per second, 0 for all

	second        time.Time // the beginning of the current one
	sent          int       // in this second
	skipped       uint64    // in all
	missed        uint64    // by the reader, in all
	toldOf, wrong uint64    // of skipped and of failed conditions, when last told
}

// run sends until there is an error: that of ctx, of the reader, or of the connection.
func (t *tailing) run(ctx context.Context, reader *tail.Reader) error {
	if err := t.write([]byte(":\n\n")); err != nil { // the reader learns that it has begun
		return err
	}
	for {
		limited, cancel := context.WithTimeout(ctx, tailBeat)
		lines, err := reader.Next(limited)
		cancel()
		switch {
		case err == nil:
			err = t.write(t.messages(lines))
			t.missed = reader.Missed
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			err = t.write([]byte(":\n\n"))
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
		text = append(text, "data: "...)
		text = append(text, l.JSON...)
		text = append(text, "\n\n"...)
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
	return t.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, text))
}

func (t *tailing) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if err := t.control.SetWriteDeadline(time.Now().Add(tailPatience)); err != nil {
		return fmt.Errorf("limit the time of a write: %w", err)
	}
	if _, err := t.w.Write(text); err != nil {
		return fmt.Errorf("send events: %w", err)
	}
	if err := t.control.Flush(); err != nil {
		return fmt.Errorf("send events: %w", err)
	}
	return nil
}
