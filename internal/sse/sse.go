// Package sse writes server-sent events (WHATWG HTML, section 9.2), with a limit of the time
// that a reader may take for each write.
package sse

import (
	"fmt"
	"net/http"
	"time"
)

// Patience is how long a reader may take to read what was sent. A later write fails with
// [os.ErrDeadlineExceeded].
const Patience = 10 * time.Second

// Writer sends messages to one reader. It belongs to one goroutine.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// New begins the answer to a request.
func New(w http.ResponseWriter) *Writer {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	return &Writer{w, http.NewResponseController(w)}
}

// Append appends a message to dst. Data is one line; without a kind it is a usual message.
func Append(dst []byte, kind string, data []byte) []byte {
	if kind != "" {
		dst = append(append(append(dst, "event: "...), kind...), '\n')
	}
	return append(append(append(dst, "data: "...), data...), "\n\n"...)
}

// Beat sends a comment, so that both sides notice a broken connection.
func (s *Writer) Beat() error { return s.Send([]byte(":\n\n")) }

// Send sends whole messages at once. It blocks for at most [Patience].
func (s *Writer) Send(messages []byte) error {
	if len(messages) == 0 {
		return nil
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		return fmt.Errorf("limit the time of a write: %w", err)
	}
	if _, err := s.w.Write(messages); err != nil {
		return fmt.Errorf("send events: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("send events: %w", err)
	}
	if err := s.control.SetWriteDeadline(time.Time{}); err != nil { // else HTTP/2 ends an idle stream
		return fmt.Errorf("end the limit of the time of a write: %w", err)
	}
	return nil
}
