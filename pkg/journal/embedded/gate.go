package embedded

import (
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
)

const (
	consumerRequests = "$JS.API.CONSUMER.>"
	createConsumer   = "$JS.API.CONSUMER.CREATE.>"
	createDurable    = "$JS.API.CONSUMER.DURABLE.CREATE.>"
	deleteConsumer   = "$JS.API.CONSUMER.DELETE.*.*"
	consumerInfo     = "$JS.API.CONSUMER.INFO.*.*"
	consumerNames    = "$JS.API.CONSUMER.NAMES.*"
	consumerList     = "$JS.API.CONSUMER.LIST.*"
	pullRequests     = "$JS.API.CONSUMER.MSG.NEXT.*.*"

	// maxReaderConsumers bounds the consumers of all readers together.
	maxReaderConsumers = 64
	// maxIdle is the longest time that a consumer of a reader exists without a pull.
	maxIdle = time.Hour
	// maxPulls and maxUnacknowledged bound what the server keeps for a consumer of a reader.
	maxPulls          = 512
	maxUnacknowledged = 10_000
	// gateTimeout bounds the creation of a consumer.
	gateTimeout = 5 * time.Second
	// gateQueue and gateBytes bound the requests of readers that wait.
	gateQueue = 4096
	gateBytes = 8 << 20
	// freshness is how long a consumer is known to exist after the server said so.
	freshness = time.Second
)

// gate answers what readers ask about consumers. It hands on requests for consumers that
// are pulled from and that readers have made, and refuses the rest: readers neither see
// nor use informd's own.
type gate struct {
	own     *nats.Conn // in the journal's account
	readers *nats.Conn // in theirs
	pulls   string     // where a pull that is let through goes

	making sync.Mutex // held while a consumer is made, so that the quota holds

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
	readers, err := s.connect(s.gatekeeper)
	if err != nil {
		return nil, err
	}
	g := &gate{own: s.conn, readers: readers, pulls: s.pulls, theirs: make(map[consumerKey]time.Time)}
	for subject, do := range map[string]func(*nats.Msg){
		createConsumer: g.answering(g.create), createDurable: g.answering(g.create), deleteConsumer: g.answering(g.remove),
		consumerInfo: g.answering(g.info), consumerNames: g.answering(g.names), consumerList: g.answering(g.list),
		pullRequests: g.pull,
	} {
		sub, err := readers.Subscribe(subject, do)
		if err == nil {
			err = sub.SetPendingLimits(gateQueue, gateBytes)
		}
		if err != nil {
			readers.Close()
			return nil, fmt.Errorf("set up the listener of the journal: %w", err)
		}
	}
	return g, nil
}

func (g *gate) close() {
	if g != nil {
		g.readers.Close()
	}
}

// answering answers a request with what do returns.
func (g *gate) answering(do func(*nats.Msg) ([]byte, error)) func(*nats.Msg) {
	return func(m *nats.Msg) {
		if m.Reply == "" || strings.HasPrefix(m.Reply, "$") {
			return // the server's own subjects are no place for an answer
		}
		answer, err := do(m)
		if err != nil {
			answer = refuse(err)
		}
		_ = g.readers.Publish(m.Reply, answer) // without an answer the client asks again
	}
}

var (
	// errPush is what a reader gets who asks for a push consumer.
	errPush   = errors.New("informd's journal has pull consumers only")
	errNoName = errors.New("this is no name of a consumer")
	// errNotTheirs is what one gets who would change or delete another's.
	errNotTheirs = errors.New("this consumer is informd's own")
)

// create hands on what was understood of the request, and nothing else of it.
func (g *gate) create(m *nats.Msg) ([]byte, error) {
	var request server.CreateConsumerRequest
	if err := json.Unmarshal(m.Data, &request); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if request.Config.DeliverSubject != "" || request.Config.DeliverGroup != "" {
		return nil, errPush
	}
	tokens := strings.Split(strings.Replace(m.Subject, "CONSUMER.DURABLE.CREATE.", "CONSUMER.CREATE.", 1), ".")
	names := append(tokens[min(5, len(tokens)):min(6, len(tokens))], request.Config.Name, request.Config.Durable)
	for _, name := range names {
		if err := g.checkTheirs(tokens[4], name); err != nil {
			return nil, err
		}
	}
	bound(&request.Config)
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("hand on the request: %w", err)
	}
	g.making.Lock()
	defer g.making.Unlock()
	if err := g.checkQuota(tokens[4], names); err != nil {
		return nil, err
	}
	answer, err := g.handOn(m.Subject, body)
	if err != nil {
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
		if _, err := g.refresh(key); err != nil {
			return err
		}
	}
	if g.count() < maxReaderConsumers {
		return nil
	}
	limit := *server.ApiErrors[server.JSMaximumConsumersLimitErr]
	limit.Description = fmt.Sprintf("readers of informd's journal have %d consumers, and no more: delete one, or wait until one expires", maxReaderConsumers)
	return &limit
}

// remove hands on a request to delete a consumer of theirs.
func (g *gate) remove(m *nats.Msg) ([]byte, error) {
	key := keyOf(m.Subject)
	if err := g.checkTheirs(key.stream, key.name); err != nil {
		return nil, err
	}
	answer, err := g.handOn(m.Subject, m.Data)
	if err == nil {
		g.note(key, false)
	}
	return answer, err
}

// info hands on a question about a consumer of theirs; others do not exist for them.
func (g *gate) info(m *nats.Msg) ([]byte, error) {
	key := keyOf(m.Subject)
	if !g.knows(key) {
		return nil, server.ApiErrors[server.JSConsumerNotFoundErr]
	}
	return g.handOn(m.Subject, m.Data)
}

// names lists theirs.
func (g *gate) names(m *nats.Msg) ([]byte, error) {
	answer := server.JSApiConsumerNamesResponse{
		ApiResponse: server.ApiResponse{Type: server.JSApiConsumerNamesResponseType}, ApiPaged: server.ApiPaged{Limit: maxReaderConsumers}, Consumers: []string{},
	}
	all, err := g.existing(m)
	for _, one := range all {
		answer.Consumers = append(answer.Consumers, one.Name)
	}
	answer.Total = len(all)
	return marshal(answer, err)
}

// list describes theirs.
func (g *gate) list(m *nats.Msg) ([]byte, error) {
	all, err := g.existing(m)
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
func (g *gate) existing(m *nats.Msg) ([]*server.ConsumerInfo, error) {
	all := []*server.ConsumerInfo{}
	for _, key := range g.keys(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]) {
		one, err := g.refresh(key)
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
		one, err := g.refresh(key)
		known = one != nil || err != nil
	}
	next := &nats.Msg{Subject: g.pulls + "." + key.stream + "." + key.name, Reply: m.Reply, Header: m.Header, Data: m.Data}
	if !known {
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
func (g *gate) refresh(key consumerKey) (*server.ConsumerInfo, error) {
	info, err := g.ask(key)
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
func (g *gate) ask(key consumerKey) (info server.JSApiConsumerInfoResponse, err error) {
	answer, err := g.handOn("$JS.API.CONSUMER.INFO."+key.stream+"."+key.name, nil)
	if err == nil {
		err = json.Unmarshal(answer, &info)
	}
	if err != nil {
		return info, fmt.Errorf("ask about a consumer: %w", err)
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
	info, err := g.ask(consumerKey{stream, name})
	if err != nil {
		return err
	}
	if info.ConsumerInfo != nil && info.Config != nil && info.Config.Metadata[readerMark] == "" {
		return errNotTheirs
	}
	return nil
}

func (g *gate) handOn(subject string, body []byte) ([]byte, error) {
	answer, err := g.own.Request(subject, body, gateTimeout)
	if err != nil {
		return nil, fmt.Errorf("hand on the request: %w", err)
	}
	return answer.Data, nil
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
