package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
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
	// gateTimeout bounds the creation of a consumer.
	gateTimeout = 5 * time.Second
)

// readerRequests is what readers may ask the journal's account. Consumers are made
// by way of the gate.
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
		"$JS.API.CONSUMER.DELETE.>",
		"$JS.API.CONSUMER.MSG.NEXT.>",
		"$JS.ACK.>",
	}
}

// readOnly lets a client look at streams and consume them, and nothing else.
func readOnly() *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: append(readerRequests(), createConsumer, createDurable)},
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

// gate makes consumers for readers: it hands on what asks for one that is pulled
// from, and refuses the rest.
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
	for _, subject := range []string{createConsumer, createDurable} {
		if _, err := readers.Subscribe(subject, g.serve); err != nil {
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
func (g *gate) serve(m *nats.Msg) {
	answer, err := g.create(m)
	if err != nil {
		answer = refuse(err)
	}
	_ = g.readers.Publish(m.Reply, answer) // without an answer the client asks again
}

// errPush is what a reader gets who asks for a push consumer.
var errPush = errors.New("informd's journal has pull consumers only")

// create hands on what was understood of the request, and nothing else of it.
func (g *gate) create(m *nats.Msg) ([]byte, error) {
	var request server.CreateConsumerRequest
	if err := json.Unmarshal(m.Data, &request); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if request.Config.DeliverSubject != "" || request.Config.DeliverGroup != "" {
		return nil, errPush
	}
	request.Config.Direct = false
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("hand on the request: %w", err)
	}
	answer, err := g.own.Request(m.Subject, body, gateTimeout)
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
