package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/informd/informd/pkg/journal"
)

// chunkHeader is the header of an answer that has a [journal.Chunk] but its bytes, as JSON.
const chunkHeader = "Informd-Chunk"

// Server serves the log of a leader: GET /log of the admin server. Its zero value serves none.
//
//	/log?replica=<address>&term=<n>                     the files, as JSON
//	/log?...&file=<name>&offset=<n>&ack=<true|false>    a part of a file, with a header
//
// With ack=true, the replica has all of the log before the offset. At the end of the newest file it waits
// for more. 503 is the answer of a process that does not lead, 409 for another term, 410 for a file that
// compaction has replaced.
type Server struct {
	mu      sync.Mutex
	journal *journal.Journal // nil while this process does not lead
	leader  *Leadership
	serving context.Context //nolint:containedctx // ends when that changes
	end     context.CancelFunc
}

// maxAddress is the length of the longest DNS name, with a port.
const maxAddress = 253 + 6

// serve begins or ends serving.
func (s *Server) serve(j *journal.Journal, l *Leadership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end()
	}
	s.journal, s.leader = j, l
	s.serving, s.end = context.WithCancel(context.Background())
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	j, l, serving := s.journal, s.leader, s.serving
	s.mu.Unlock()
	if j == nil {
		http.Error(w, "this informd does not lead", http.StatusServiceUnavailable)
		return
	}
	query := r.URL.Query()
	if term := query.Get("term"); term != strconv.FormatInt(l.Term(), 10) {
		http.Error(w, fmt.Sprintf("this informd leads in term %d, not %s", l.Term(), term), http.StatusConflict)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(serving, cancel)()
	var err error
	if file := query.Get("file"); file == "" {
		err = files(w, j)
	} else {
		var offset int64
		if offset, err = strconv.ParseInt(query.Get("offset"), 10, 64); err != nil || offset < 0 {
			http.Error(w, "offset is no number of bytes", http.StatusBadRequest)
			return
		}
		if query.Get("ack") == "true" {
			follower := query.Get("replica")
			if host, port, err := net.SplitHostPort(follower); err != nil || host == "" || port == "" || len(follower) > maxAddress || strings.ContainsAny(follower, ", ") {
				http.Error(w, "replica is no address", http.StatusBadRequest)
				return
			}
			j.Shipping().Acknowledge(follower, file, offset)
		}
		err = chunk(ctx, w, l, j, file, offset)
	}
	switch {
	case errors.Is(err, journal.ErrNoFile):
		http.Error(w, err.Error(), http.StatusGone)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func files(w http.ResponseWriter, j *journal.Journal) error {
	all, err := j.Shipping().Files()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // the client has gone
	return nil
}

func chunk(ctx context.Context, w http.ResponseWriter, l *Leadership, j *journal.Journal, file string, offset int64) error {
	c, err := j.Shipping().Chunk(ctx, file, offset, l.client.duration/4)
	if err != nil {
		return err
	}
	head, err := json.Marshal(c)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(chunkHeader, string(head))
	_, _ = w.Write(c.Bytes) // the client has gone
	return nil
}
