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
	// readersAccount is where clients of the listener are. A permission cannot keep
	// the server from writing what a client makes it write: an answer goes to any
	// subject that the request names, and a push consumer's messages to any subject
	// at all. In an account of their own the clients have no subject in common with
	// the journal but those that are handed over here.
	readersAccount = "READERS"
	createConsumer = "$JS.API.CONSUMER.CREATE.>"
	createDurable  = "$JS.API.CONSUMER.DURABLE.CREATE.>"
	deleteConsumer = "$JS.API.CONSUMER.DELETE.>"
	// readerMark is in the metadata of consumers that readers have made. Those without
	// it are the process's own: with another filter, say, they would leave out messages
	// without a word.
	readerMark = "informd-reader"
	// gateTimeout bounds the creation of a consumer.
	gateTimeout = 5 * time.Second
)

// readerRequests is what readers may ask the journal's account. Consumers are made
// and deleted by way of the gate.
func readerRequests() []string {
	return []string{
		"$JS.API.INFO",
		"$JS.API.STREAM.NAMES",
		"$JS.API.STREAM.LIST",
		"$JS.API.STREAM.INFO.>",
		"$JS.API.STREAM.MSG.GET.>",
		"$JS.API.DIRECT.GET.>",
		"$JS.API.CONSUMER.NAMES.>",
		"$JS.API.CONSUMER.LIST.>",
		"$JS.API.CONSUMER.INFO.>",
		"$JS.API.CONSUMER.MSG.NEXT.>",
		"$JS.ACK.>",
	}
}

// readOnly lets a client look at streams and consume them, and nothing else.
func readOnly() *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: append(readerRequests(), createConsumer, createDurable, deleteConsumer)},
		Subscribe: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"$JS.>"}},
	}
}

// newReaders makes the readers' account anew, for a server that is to be started, and
// returns it with the journal's, of which it is allowed that much. Nil if there is
// no listener.
func (s *Server) newReaders() ([]*server.Account, error) {
	if s.config.Listen == "" {
		return nil, nil
	}
	own, readers := server.NewAccount(server.DEFAULT_GLOBAL_ACCOUNT), server.NewAccount(readersAccount)
	only := []*server.Account{readers}
	for _, subject := range readerRequests() {
		err := own.AddServiceExportWithResponse(subject, server.Streamed, only)
		if err == nil {
			err = readers.AddServiceImport(own, subject, subject)
		}
		if err != nil {
			return nil, fmt.Errorf("set up the listener of the journal: %s: %w", subject, err)
		}
	}
	if s.config.Events != "" {
		err := own.AddStreamExport(s.config.Events, only)
		if err == nil {
			err = readers.AddStreamImport(own, s.config.Events, "")
		}
		if err != nil {
			return nil, fmt.Errorf("set up the listener of the journal: %s: %w", s.config.Events, err)
		}
	}
	s.readers = readers
	return []*server.Account{own, readers}, nil
}

// enableJournal has the journal's account use JetStream, which the server does by
// itself only while it has no other.
func (s *Server) enableJournal(srv *server.Server) error {
	if s.config.Listen == "" {
		return nil
	}
	if err := srv.GlobalAccount().EnableJetStream(nil, nil); err != nil {
		return fmt.Errorf("turn on JetStream: %w", err)
	}
	return nil
}

// gate makes and deletes consumers for readers: it hands on what asks for one that is
// pulled from, or is about one that a reader has made, and refuses the rest.
type gate struct {
	own     *nats.Conn // in the journal's account
	readers *nats.Conn // in theirs
}

// openGate returns nil if there is no listener.
func (s *Server) openGate() (*gate, error) {
	if s.config.Listen == "" {
		return nil, nil //nolint:nilnil // nobody to let in
	}
	readers, err := s.connect(s.gatekeeper)
	if err != nil {
		return nil, err
	}
	g := &gate{own: s.conn, readers: readers}
	for subject, do := range map[string]func(*nats.Msg) ([]byte, error){createConsumer: g.create, createDurable: g.create, deleteConsumer: g.remove} {
		if _, err := readers.Subscribe(subject, func(m *nats.Msg) { g.serve(m, do) }); err != nil {
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

// serve answers one request.
func (g *gate) serve(m *nats.Msg, do func(*nats.Msg) ([]byte, error)) {
	answer, err := do(m)
	if err != nil {
		answer = refuse(err)
	}
	_ = g.readers.Publish(m.Reply, answer) // without an answer the client asks again
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
	for _, name := range append(tokens[min(5, len(tokens)):min(6, len(tokens))], request.Config.Name, request.Config.Durable) {
		if err := g.checkTheirs(tokens[4], name); err != nil {
			return nil, err
		}
	}
	request.Config.Direct = false
	if request.Config.Metadata == nil {
		request.Config.Metadata = make(map[string]string)
	}
	request.Config.Metadata[readerMark] = "true"
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("hand on the request: %w", err)
	}
	return g.handOn(m.Subject, body)
}

// remove hands on a request to delete a consumer of theirs.
func (g *gate) remove(m *nats.Msg) ([]byte, error) {
	if tokens := strings.Split(m.Subject, "."); len(tokens) == 6 {
		if err := g.checkTheirs(tokens[4], tokens[5]); err != nil {
			return nil, err
		}
	}
	return g.handOn(m.Subject, m.Data)
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
	answer, err := g.handOn("$JS.API.CONSUMER.INFO."+stream+"."+name, nil)
	if err != nil {
		return err
	}
	var info server.JSApiConsumerInfoResponse
	if err := json.Unmarshal(answer, &info); err != nil {
		return fmt.Errorf("read the answer about a consumer: %w", err)
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
	answer, _ := json.Marshal(server.JSApiConsumerCreateResponse{ApiResponse: server.ApiResponse{
		Type:  server.JSApiConsumerCreateResponseType,
		Error: &server.ApiError{Code: 400, ErrCode: uint16(server.JSConsumerCreateErrF), Description: err.Error()},
	}})
	return answer
}
