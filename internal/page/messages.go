package page

import (
	"fmt"
	"net/http"
	"time"
)

// Patience is how long a reader may take to read what was sent. A later write fails with
// [os.ErrDeadlineExceeded].
const Patience = 10 * time.Second

// Beat is a comment, with which both sides notice a broken connection.
const Beat = ":\n\n"

// Sender sends messages to one reader as server-sent events (WHATWG HTML, section 9.2). It belongs
// to one goroutine.
type Sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// NewSender begins the answer to a request.
func NewSender(w http.ResponseWriter) *Sender {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	return &Sender{w, http.NewResponseController(w)}
}

// AppendMessage appends a message to dst. Data is one line; without a kind it is a usual message.
func AppendMessage(dst []byte, kind string, data []byte) []byte {
	if kind != "" {
		dst = append(append(append(dst, "event: "...), kind...), '\n')
	}
	return append(append(append(dst, "data: "...), data...), "\n\n"...)
}

// Write sends whole messages at once. It blocks for at most [Patience].
func (s *Sender) Write(messages []byte) (int, error) {
	if err := s.control.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		return 0, fmt.Errorf("limit the time of a write: %w", err)
	}
	if _, err := s.w.Write(messages); err != nil {
		return 0, fmt.Errorf("send events: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return 0, fmt.Errorf("send events: %w", err)
	}
	if err := s.control.SetWriteDeadline(time.Time{}); err != nil { // else HTTP/2 ends an idle stream
		return 0, fmt.Errorf("end the limit of the time of a write: %w", err)
	}
	return len(messages), nil
}
