package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/journal"
)

// remote is a leader over HTTP. It implements [journal.Leader].
type remote struct {
	client  *http.Client
	peers   Peers
	address string // host:port
	me      string
	term    int64
	log     string // the id in the Lease
}

var _ journal.Leader = (*remote)(nil)

// Files implements [journal.Leader].
func (r *remote) Files(ctx context.Context) (all journal.Files, err error) {
	_, body, err := r.get(ctx, url.Values{})
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err == nil && all.Log != r.log {
		err = fmt.Errorf("%s has the log %q, and the Lease names %q", r.address, all.Log, r.log)
	}
	return all, err
}

// Chunk implements [journal.Leader].
func (r *remote) Chunk(ctx context.Context, name string, offset int64, ack bool) (c journal.Chunk, err error) {
	h, body, err := r.get(ctx, url.Values{"file": {name}, "offset": {strconv.FormatInt(offset, 10)}, "ack": {strconv.FormatBool(ack)}})
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal([]byte(h.Get(chunkHeader)), &c); err != nil {
		return c, fmt.Errorf("the answer of %s is not that of an informd: %w", r.address, err)
	}
	c.Bytes = body
	return c, nil
}

// maxAnswer bounds what a leader may answer, in bytes.
const maxAnswer = 8 << 20

func (r *remote) get(ctx context.Context, query url.Values) (http.Header, []byte, error) {
	query.Set("replica", r.me)
	query.Set("term", strconv.FormatInt(r.term, 10))
	at := r.peers.at(r.address, "/log")
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err == nil {
		err = r.peers.authorize(request.Header)
	}
	if err != nil {
		return nil, nil, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the leader %s: %w", r.address, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("read the answer of the leader %s: %w", r.address, err)
	case response.StatusCode == http.StatusGone:
		return nil, nil, journal.ErrNoFile
	case response.StatusCode != http.StatusOK:
		text := strings.TrimSpace(string(body[:min(len(body), 300)]))
		return nil, nil, fmt.Errorf("the leader %s answers %s: %s", r.address, response.Status, text)
	}
	return response.Header, body, nil
}
