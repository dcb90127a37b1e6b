package embedded

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

const (
	createConsumer = "$JS.API.CONSUMER.CREATE.>"
	createDurable  = "$JS.API.CONSUMER.DURABLE.CREATE.*.*"
	deleteConsumer = "$JS.API.CONSUMER.DELETE.*.*"
	consumerInfo   = "$JS.API.CONSUMER.INFO.*.*"
	consumerNames  = "$JS.API.CONSUMER.NAMES.*"
	consumerList   = "$JS.API.CONSUMER.LIST.*"
	pullRequests   = "$JS.API.CONSUMER.MSG.NEXT.*.*"

	// maxReaderConsumers bounds the consumers of all readers together.
	maxReaderConsumers = 64
	// maxIdle is the longest time that a consumer of a reader exists without a pull.
	maxIdle = time.Hour
	// maxPulls and maxUnacknowledged bound what the server keeps for a consumer of a reader.
	maxPulls          = 512
	maxUnacknowledged = 10_000
	// maxFilters bounds the filter subjects of such a consumer. The server compares each with
	// each other (2.15.2: checkConsumerCfg), 60,000 of them in most of a minute.
	maxFilters = 64
	// gateQueue and gateBytes bound what the gate's subscriptions hold.
	gateQueue = 4096
	gateBytes = 8 << 20
	// freshness is how long a consumer is known to exist after the server said so.
	freshness = time.Second
)

// gate answers the requests of readers. It hands them on one at a time, so that they neither
// occupy the server's workers nor its queue. It permits requests for consumers that are
// pulled from and that readers have made, and refuses others: readers neither see nor use
// informd's own.
type gate struct {
	own      *nats.Conn // in the journal's account; for readers alone, as answers may be large
	readers  *nats.Conn // in theirs
	requests *nats.Conn // in the account of their requests
	pulls    string     // where a pull that is let through goes
	queue    *queue
	floods   chan<- uint64 // takes clients with too many waiting requests
	log      *serverLogger

	slow, last time.Duration // gateTimeout and gateLast

	closed  chan struct{}
	working sync.WaitGroup

	mu sync.Mutex
	// theirs has when a consumer of readers was last known to exist, by stream and name.
	theirs map[consumerKey]time.Time
}

type consumerKey struct{ stream, name string }

// openGate returns nil if there is no listener.
func (s *Server) openGate() (*gate, error) {
	if s.config.Listen == "" {
		return nil, nil //nolint:nilnil // nobody to let in
	}
	g := &gate{
		pulls: s.pulls, queue: newQueue(), floods: s.floods, log: s.log, slow: gateTimeout, last: gateLast,
		closed: make(chan struct{}), theirs: make(map[consumerKey]time.Time),
	}
	for conn, as := range map[**nats.Conn]identity{&g.own: s.identity, &g.readers: s.gatekeeper, &g.requests: s.requester} {
		made, err := s.connect(as)
		if err != nil {
			g.close()
			return nil, err
		}
		*conn = made
	}
	err := listen(g.readers, pullRequests, g.pull)
	if err == nil {
		err = listen(g.requests, asked+">", g.receive)
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("set up journal.listen: %w", err)
	}
	g.working.Go(g.work)
	return g, nil
}

func listen(conn *nats.Conn, subject string, do nats.MsgHandler) error {
	sub, err := conn.Subscribe(subject, do)
	if err != nil {
		return err
	}
	return sub.SetPendingLimits(gateQueue, gateBytes)
}

func (g *gate) conns() []*nats.Conn { return []*nats.Conn{g.own, g.readers, g.requests} }

func (g *gate) connected() bool {
	return !slices.ContainsFunc(g.conns(), func(c *nats.Conn) bool { return !c.IsConnected() })
}

func (g *gate) close() {
	if g == nil {
		return
	}
	for _, conn := range g.conns() {
		if conn != nil {
			conn.Close()
		}
	}
	close(g.closed)
	g.working.Wait()
}

var (
	// errPush is what a reader gets who asks for a push consumer.
	errPush   = errors.New("informd's journal allows only pull consumers")
	errNoName = errors.New("consumer name is invalid")
	// errNotTheirs is what one gets who would change or delete another's.
	errNotTheirs = errors.New("this consumer belongs to informd")
)

// create hands on what was understood of the request, and nothing else of it.
func (g *gate) create(r request) ([]byte, error) {
	var wanted server.CreateConsumerRequest
	if err := json.Unmarshal(r.Data, &wanted); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if wanted.Config.DeliverSubject != "" || wanted.Config.DeliverGroup != "" {
		return nil, errPush
	}
	if n := len(wanted.Config.FilterSubjects); n > maxFilters {
		return nil, fmt.Errorf("informd's journal allows a consumer at most %d filter subjects, not %d", maxFilters, n)
	}
	tokens := strings.Split(strings.Replace(r.Subject, "CONSUMER.DURABLE.CREATE.", "CONSUMER.CREATE.", 1), ".")
	names := append(tokens[min(5, len(tokens)):min(6, len(tokens))], wanted.Config.Name, wanted.Config.Durable)
	if strings.Join(names, "") == "" { // it must be known also without the server's answer
		wanted.Config.Name = nuid.Next()
		names = []string{wanted.Config.Name}
	}
	for _, name := range names {
		if err := g.checkTheirs(tokens[4], name); err != nil {
			return nil, err
		}
	}
	bound(&wanted.Config)
	body, err := json.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("forward the request: %w", err)
	}
	if err := g.checkQuota(tokens[4], names); err != nil {
		return nil, err
	}
	answer, err := g.handOn(r.Subject, body, g.last)
	if err != nil {
		// It may exist, now or later: it counts until the server denies it.
		g.note(consumerKey{tokens[4], cmp.Or(names...)}, true)
		return nil, err
	}
	var made server.JSApiConsumerCreateResponse
	if err := json.Unmarshal(answer, &made); err == nil && made.Error == nil && made.ConsumerInfo != nil {
		g.note(consumerKey{made.Stream, made.Name}, true)
	}
	return answer, nil
}

// bound makes a consumer one of readers: it costs little, and ends without them.
func bound(c *server.ConsumerConfig) {
	c.Direct = false
	if c.Metadata == nil {
		c.Metadata = make(map[string]string)
	}
	c.Metadata[readerMark] = "true"
	// Without a threshold the server keeps an ephemeral one for seconds, a durable one for ever.
	if c.InactiveThreshold > maxIdle || c.InactiveThreshold <= 0 && c.Durable != "" {
		c.InactiveThreshold = maxIdle
	}
	c.MaxWaiting = min(c.MaxWaiting, maxPulls)
	if c.MaxAckPending < 0 || c.MaxAckPending > maxUnacknowledged {
		c.MaxAckPending = maxUnacknowledged
	}
}

// checkQuota returns an error if readers have as many consumers as they may, and none of
// these names.
func (g *gate) checkQuota(stream string, names []string) error {
	if g.count() < maxReaderConsumers || slices.ContainsFunc(names, func(name string) bool { return g.knows(consumerKey{stream, name}) }) {
		return nil
	}
	for _, key := range g.keys("") { // some may have expired
		if _, err := g.refresh(key, g.last); err != nil {
			return err
		}
	}
	if g.count() < maxReaderConsumers {
		return nil
	}
	limit := *server.ApiErrors[server.JSMaximumConsumersLimitErr]
	limit.Description = fmt.Sprintf("informd's journal allows its readers at most %d consumers: delete one, or wait until one expires", maxReaderConsumers)
	return &limit
}

// remove hands on a request to delete a consumer of theirs.
func (g *gate) remove(r request) ([]byte, error) {
	key := keyOf(r.Subject)
	if err := g.checkTheirs(key.stream, key.name); err != nil {
		return nil, err
	}
	answer, err := g.handOn(r.Subject, r.Data, g.last)
	if err == nil {
		g.note(key, false)
	}
	return answer, err
}

// info hands on a question about a consumer of theirs; others do not exist for them.
func (g *gate) info(r request) ([]byte, error) {
	key := keyOf(r.Subject)
	if !g.knows(key) {
		return nil, server.ApiErrors[server.JSConsumerNotFoundErr]
	}
	return g.handOn(r.Subject, r.Data, g.last)
}

// names lists theirs.
func (g *gate) names(r request) ([]byte, error) {
	answer := server.JSApiConsumerNamesResponse{
		ApiResponse: server.ApiResponse{Type: server.JSApiConsumerNamesResponseType}, ApiPaged: server.ApiPaged{Limit: maxReaderConsumers}, Consumers: []string{},
	}
	all, err := g.existing(r)
	for _, one := range all {
		answer.Consumers = append(answer.Consumers, one.Name)
	}
	answer.Total = len(all)
	return marshal(answer, err)
}

// list describes theirs.
func (g *gate) list(r request) ([]byte, error) {
	all, err := g.existing(r)
	return marshal(server.JSApiConsumerListResponse{
		ApiResponse: server.ApiResponse{Type: server.JSApiConsumerListResponseType},
		ApiPaged:    server.ApiPaged{Limit: maxReaderConsumers, Total: len(all)}, Consumers: all,
	}, err)
}

func marshal(answer any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// existing returns their consumers of the stream that a request names.
func (g *gate) existing(r request) ([]*server.ConsumerInfo, error) {
	all := []*server.ConsumerInfo{}
	for _, key := range g.keys(r.Subject[strings.LastIndexByte(r.Subject, '.')+1:]) {
		one, err := g.refresh(key, g.last)
		if err != nil {
			return nil, err
		}
		if one != nil {
			all = append(all, one)
		}
	}
	return all, nil
}

// pull hands on a pull from a consumer of theirs. The messages go to the reader directly.
func (g *gate) pull(m *nats.Msg) {
	if m.Reply == "" || strings.HasPrefix(m.Reply, "$") {
		return
	}
	key := keyOf(m.Subject)
	g.mu.Lock()
	seen, known := g.theirs[key]
	g.mu.Unlock()
	if known && time.Since(seen) > freshness {
		one, err := g.refresh(key, g.slow)
		known = one != nil || err != nil
		if err != nil {
			g.note(key, true) // the next pulls do not wait for the server
		}
	}
	next := &nats.Msg{Subject: g.pulls + "." + key.stream + "." + key.name, Reply: m.Reply, Header: m.Header, Data: m.Data}
	switch {
	case m.Size() > maxRequest:
		next = &nats.Msg{Subject: m.Reply, Header: nats.Header{"Status": {"400"}, "Description": {errTooLarge.Error()}}}
	case !known:
		// As the server answers where there is no such consumer.
		next = &nats.Msg{Subject: m.Reply, Header: nats.Header{"Status": {"503"}}}
	}
	_ = g.readers.PublishMsg(next) // without an answer the client asks again
}

// keyOf is the consumer in a subject that ends in a stream and a name.
func keyOf(subject string) consumerKey {
	tokens := strings.Split(subject, ".")
	return consumerKey{tokens[len(tokens)-2], tokens[len(tokens)-1]}
}

func (g *gate) note(key consumerKey, exists bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if exists {
		g.theirs[key] = time.Now()
	} else {
		delete(g.theirs, key)
	}
}

func (g *gate) knows(key consumerKey) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.theirs[key]
	return ok
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.theirs)
}

// keys returns theirs of a stream, or of all for "", in order.
func (g *gate) keys(stream string) []consumerKey {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Collect(maps.Keys(g.theirs))
	all = slices.DeleteFunc(all, func(k consumerKey) bool { return stream != "" && k.stream != stream })
	slices.SortFunc(all, func(a, b consumerKey) int { return strings.Compare(a.stream+"."+a.name, b.stream+"."+b.name) })
	return all
}

// refresh asks the server for a consumer of theirs, and forgets one that is not there.
func (g *gate) refresh(key consumerKey, wait time.Duration) (*server.ConsumerInfo, error) {
	info, err := g.ask(key, wait)
	if err != nil {
		return nil, err
	}
	switch {
	case info.ConsumerInfo != nil:
		g.note(key, true)
	case info.Error != nil && info.Error.Code == 404:
		g.note(key, false)
	}
	return info.ConsumerInfo, nil
}

// ask asks the server about a consumer.
func (g *gate) ask(key consumerKey, wait time.Duration) (info server.JSApiConsumerInfoResponse, err error) {
	answer, err := g.handOn("$JS.API.CONSUMER.INFO."+key.stream+"."+key.name, nil, wait)
	if err == nil {
		err = json.Unmarshal(answer, &info)
	}
	if err != nil {
		return info, fmt.Errorf("get a consumer: %w", err)
	}
	return info, nil
}

// checkTheirs returns errNotTheirs if there is a consumer of that name that no reader
// has made.
func (g *gate) checkTheirs(stream, name string) error {
	if name == "" {
		return nil
	}
	if strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || strings.ContainsRune(".*>/\\\x7f", c) }) {
		return errNoName // it must not get into a subject
	}
	info, err := g.ask(consumerKey{stream, name}, g.last)
	if err != nil {
		return err
	}
	if info.ConsumerInfo != nil && info.Config != nil && info.Config.Metadata[readerMark] == "" {
		return errNotTheirs
	}
	return nil
}
