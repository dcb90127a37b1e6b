package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

var errMissed = errors.New("the watch has missed events")

// watchStream is the body of a watch in JSON, frame by frame. It ends if it was stuck and has
// missed events: no API server continues such a watch.
type watchStream struct {
	io.Closer

	frames *bufio.Reader
	stuck  func() bool
	// at is the revision of the last frame that passed. missed: one did not.
	at     string
	missed bool
	rest   []byte // of a frame that is being read
}

// stuckAtTimes is the body of a watch on a server that may get stuck.
func (g *Gateway) stuckAtTimes(r *http.Request, body io.ReadCloser, server int) io.ReadCloser {
	return &watchStream{
		Closer: body, frames: bufio.NewReader(body), at: r.URL.Query().Get("resourceVersion"),
		stuck: func() bool {
			b, _ := g.now()
			return b.StuckWatches && b.at(server)
		},
	}
}

// Read implements io.Reader. It returns no frame in part unless the frame is larger than p.
func (w *watchStream) Read(p []byte) (int, error) {
	for len(w.rest) == 0 {
		frame, err := w.frames.ReadBytes('\n')
		if err != nil {
			if len(frame) > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		if w.rest, err = w.pass(frame); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// pass returns what the client gets of a frame.
func (w *watchStream) pass(frame []byte) ([]byte, error) {
	var f struct {
		Type   string
		Object struct {
			Metadata struct{ ResourceVersion string }
		}
	}
	if err := json.Unmarshal(frame, &f); err != nil {
		return nil, fmt.Errorf("frame of a watch: %w", err)
	}
	revision := f.Object.Metadata.ResourceVersion
	switch stuck := w.stuck(); {
	case revision == "": // an error of the server
		return frame, nil
	case !stuck && w.missed:
		return nil, errMissed
	case !stuck:
		w.at = revision
		return frame, nil
	case f.Type != "BOOKMARK" || w.at == "":
		w.missed = true
		return nil, nil
	default:
		return bytes.Replace(frame, fmt.Appendf(nil, "%q", revision), fmt.Appendf(nil, "%q", w.at), 1), nil
	}
}
