package page

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Patience is how long a reader may take to read what was sent. A later write fails with
// [os.ErrDeadlineExceeded].
const Patience = 10 * time.Second

// patient limits the time of each write and flush.
type patient struct {
	http.ResponseWriter

	control *http.ResponseController
}

// Patient returns w for an answer without an end: each write and flush has [Patience], in place
// of a limit for all.
func Patient(w http.ResponseWriter) http.ResponseWriter {
	return &patient{w, http.NewResponseController(w)}
}

// Unwrap is for [http.ResponseController].
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write implements [http.ResponseWriter].
func (p *patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		return 0, fmt.Errorf("limit the time of a write: %w", err)
	}
	return p.ResponseWriter.Write(b)
}

// FlushError is for [http.ResponseController]. A limit that stayed would end an idle stream of HTTP/2.
func (p *patient) FlushError() error {
	return errors.Join(p.control.Flush(), p.control.SetWriteDeadline(time.Time{}))
}

// Beat is a comment, with which both sides notice a broken connection.
const Beat = ":\n\n"

// Sender sends messages to one reader as server-sent events (WHATWG HTML, section 9.2). It belongs
// to one goroutine.
type Sender struct{ w http.ResponseWriter }

// NewSender begins the answer to a request.
func NewSender(w http.ResponseWriter) Sender {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	return Sender{Patient(w)}
}

// AppendMessage appends a message to dst. Data is one line; without a kind it is a usual message.
func AppendMessage(dst []byte, kind string, data []byte) []byte {
	if kind != "" {
		dst = append(append(append(dst, "event: "...), kind...), '\n')
	}
	return append(append(append(dst, "data: "...), data...), "\n\n"...)
}

// Write sends whole messages at once. It blocks for at most [Patience].
func (s Sender) Write(messages []byte) (int, error) {
	n, err := s.w.Write(messages)
	if err == nil {
		err = http.NewResponseController(s.w).Flush()
	}
	if err != nil {
		return n, fmt.Errorf("send events: %w", err)
	}
	return n, nil
}
