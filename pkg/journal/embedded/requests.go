package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	// maxRequest bounds a reader's request with its header and subject, in bytes.
	maxRequest = 64 << 10
	// gateTimeout is how long a reader waits for an answer before it gets an error.
	gateTimeout = 5 * time.Second
	// gateLast is how long the gate waits for the server's answer before it sends the next
	// request. Until then the earlier one may occupy a worker of the server.
	gateLast = time.Minute
	// gateTick is how often the gate checks for a new server, which never answers requests to
	// the earlier one.
	gateTick = 100 * time.Millisecond
	// replies is how the server's subjects for answers to another account begin.
	replies = "_R_."
	// api is how the subjects of requests begin for readers, and asked how they do where the gate
	// gets them: the server itself answers the former in every account.
	api        = "$JS.API."
	asked      = "INFORMD.API."
	directGets = api + "DIRECT.GET."
)

var (
	errTooLarge = fmt.Errorf("informd's journal allows requests of at most %d KiB", maxRequest>>10)
	errSlow     = fmt.Errorf("the journal server did not answer within %s; try again", gateTimeout)
	errNoAnswer = errors.New("the journal server did not answer")
	// errBatch refuses direct gets with many messages for one request.
	errBatch = errors.New("a direct get from informd's journal returns one message: batch, max_bytes and multi_last are not allowed")
	// errLargeAnswer is for answers of the server that no client could send.
	errLargeAnswer = fmt.Errorf("the answer is larger than %d MiB; ask for less", maxPayload>>20)
)

// receive queues a request. It drops a request that does not come from a client of the
// listener, or that has no reply subject of the server's.
func (g *gate) receive(m *nats.Msg) {
	var from server.ClientInfo
	if err := json.Unmarshal([]byte(m.Header.Get(server.ClientInfoHdr)), &from); err != nil || from.Account != readersAccount {
		return
	}
	if !strings.HasPrefix(m.Reply, replies) {
		return
	}
	r := request{Msg: &nats.Msg{Subject: api + strings.TrimPrefix(m.Subject, asked), Reply: m.Reply}, tooLarge: m.Size() > maxRequest}
	if !r.tooLarge {
		r.Data = m.Data
	}
	switch g.queue.add(from.ID, r) {
	case accepted:
	case overflow:
		select {
		case g.floods <- from.ID:
		default: // the client's next overflow reports it again
		}
	case full:
		g.log.tooMany("requests dropped: too many clients have pending requests")
	}
}

// work serves one request at a time, until the gate closes. The server has few workers for
// requests, and drops all requests, also informd's own, if too many wait for them.
func (g *gate) work() {
	for {
		select {
		case <-g.closed:
			return
		case <-g.queue.ready:
		}
		for r, ok := g.queue.next(); ok && !g.own.IsClosed(); r, ok = g.queue.next() {
			g.serve(r)
		}
	}
}

// serve answers a request. If the server is slow, the reader gets an error first, and
// serve returns when the server has answered.
func (g *gate) serve(r request) {
	late := time.AfterFunc(g.slow, func() { g.answer(r, nil, errSlow) })
	answer, err := g.do(r)
	if late.Stop() {
		g.answer(r, answer, err)
	}
}

func (g *gate) do(r request) (*nats.Msg, error) {
	if r.tooLarge {
		return nil, errTooLarge
	}
	if strings.HasPrefix(r.Subject, directGets) {
		return g.get(r)
	}
	body, err := g.body(r)
	return &nats.Msg{Data: body}, err
}

func (g *gate) body(r request) ([]byte, error) {
	rest, ok := strings.CutPrefix(r.Subject, api+"CONSUMER.")
	if !ok {
		return g.handOn(r.Subject, r.Data, g.last)
	}
	switch kind, _, _ := strings.Cut(rest, "."); kind {
	case "CREATE", "DURABLE":
		return g.create(r)
	case "DELETE":
		return g.remove(r)
	case "INFO":
		return g.info(r)
	case "NAMES":
		return g.names(r)
	default: // LIST
		return g.list(r)
	}
}

// get hands on a direct get that has one answer.
func (g *gate) get(r request) (*nats.Msg, error) {
	var wanted server.JSApiMsgGetRequest
	if err := json.Unmarshal(r.Data, &wanted); err == nil && (wanted.Batch > 0 || wanted.MaxBytes > 0 || len(wanted.MultiLastFor) > 0) {
		return nil, errBatch
	}
	return g.exchange(r.Subject, r.Data, g.last)
}

// answer answers a request with a message or an error. Without an answer the client asks
// again.
func (g *gate) answer(r request, m *nats.Msg, err error) {
	if err != nil {
		m = r.refusal(err)
	}
	err = g.requests.PublishMsg(&nats.Msg{Subject: r.Reply, Header: m.Header, Data: m.Data})
	if errors.Is(err, nats.ErrMaxPayload) {
		_ = g.requests.PublishMsg(r.refusal(errLargeAnswer))
	}
}

// refusal is an error as the client expects it for that request.
func (r request) refusal(err error) *nats.Msg {
	if strings.HasPrefix(r.Subject, directGets) {
		return &nats.Msg{Subject: r.Reply, Header: nats.Header{"Status": {"408"}, "Description": {err.Error()}}}
	}
	return &nats.Msg{Subject: r.Reply, Data: refuse(err)}
}

// handOn is exchange for a request whose answer has no header.
func (g *gate) handOn(subject string, body []byte, wait time.Duration) ([]byte, error) {
	m, err := g.exchange(subject, body, wait)
	switch {
	case err != nil:
		return nil, err
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		return nil, fmt.Errorf("forward the request: %w", nats.ErrNoResponders)
	default:
		return m.Data, nil
	}
}

// exchange sends a request to the server and returns its answer. It fails after the time to
// wait, and if the server is stopped meanwhile.
func (g *gate) exchange(subject string, body []byte, wait time.Duration) (*nats.Msg, error) {
	inbox, answers := nats.NewInbox(), make(chan *nats.Msg, 1)
	sub, err := g.own.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, fmt.Errorf("forward the request: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // a closed connection has none
	before := g.own.Stats().Reconnects
	if err := g.own.PublishRequest(subject, inbox, body); err != nil {
		return nil, fmt.Errorf("forward the request: %w", err)
	}
	end := time.NewTimer(wait)
	defer end.Stop()
	poll := time.NewTicker(gateTick)
	defer poll.Stop()
	for {
		select {
		case m := <-answers:
			return m, nil
		case <-poll.C:
			if g.own.Stats().Reconnects != before || !g.own.IsConnected() {
				return nil, errNoAnswer
			}
		case <-end.C:
			return nil, errNoAnswer
		case <-g.closed:
			return nil, errNoAnswer
		}
	}
}

// refuse is an error as the server's clients expect it.
func refuse(err error) []byte {
	known, ok := errors.AsType[*server.ApiError](err)
	if !ok {
		known = &server.ApiError{Code: 400, ErrCode: uint16(server.JSConsumerCreateErrF), Description: err.Error()}
	}
	answer, _ := json.Marshal(server.JSApiConsumerCreateResponse{ApiResponse: server.ApiResponse{
		Type: server.JSApiConsumerCreateResponseType, Error: known,
	}})
	return answer
}
