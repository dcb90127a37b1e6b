package embedded

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// readersAccount is where clients of the listener are. A permission cannot keep
	// the server from writing what a client makes it write: an answer goes to any
	// subject that the request names, and a push consumer's messages to any subject
	// at all. In an account of their own the clients have no subject in common with
	// the journal but those that are handed over here.
	readersAccount = "READERS"
	// requestsAccount is where the gate gets the requests of readers. A request from another
	// account has the client's number, which the client cannot choose.
	requestsAccount = "REQUESTS"
	// readerMark is in the metadata of consumers that readers have made. Those without
	// it are the process's own: with another filter, say, they would leave out messages
	// without a word.
	readerMark = "informd-reader"
)

// acknowledgements go from readers to the journal's account directly.
const acknowledgements = "$JS.ACK.>"

// gatedRequests are the requests of readers that go through the gate, without the pulls.
func gatedRequests() []string {
	return []string{
		"$JS.API.INFO",
		"$JS.API.STREAM.NAMES",
		"$JS.API.STREAM.LIST",
		"$JS.API.STREAM.INFO.*",
		"$JS.API.STREAM.MSG.GET.*",
		directGets + ">",
		createConsumer, createDurable, deleteConsumer, consumerInfo, consumerNames, consumerList,
	}
}

// readOnly lets a client look at streams and consume them, and nothing else.
func readOnly() *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: append(gatedRequests(), pullRequests, acknowledgements)},
		Subscribe: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"$JS.>"}},
	}
}

// newReaders makes the readers' account again, for a server that is to be started, and
// returns it with the journal's and that of its requests. Nil if there is no listener.
func (s *Server) newReaders() ([]*server.Account, error) {
	if s.config.Listen == "" {
		return nil, nil
	}
	own, readers, requests := server.NewAccount(server.DEFAULT_GLOBAL_ACCOUNT), server.NewAccount(readersAccount), server.NewAccount(requestsAccount)
	only := []*server.Account{readers}
	handedOver := []handover{
		{from: readers, subject: acknowledgements, to: own, as: acknowledgements},
		{from: readers, subject: s.pulls + ".*.*", to: own, as: pullRequests},
	}
	for _, subject := range gatedRequests() {
		handedOver = append(handedOver, handover{from: readers, subject: subject, to: requests, as: asked + strings.TrimPrefix(subject, api), once: true})
	}
	for _, h := range handedOver {
		if err := h.set(); err != nil {
			return nil, fmt.Errorf("set up journal.listen: %s: %w", h.subject, err)
		}
	}
	if s.config.Events != "" {
		err := own.AddStreamExport(s.config.Events, only)
		if err == nil {
			err = readers.AddStreamImport(own, s.config.Events, "")
		}
		if err != nil {
			return nil, fmt.Errorf("set up journal.listen: %s: %w", s.config.Events, err)
		}
	}
	s.readers, s.requests = readers, requests
	return []*server.Account{own, readers, requests}, nil
}

// handover lets an account send requests to another one.
type handover struct {
	from    *server.Account
	subject string // in from
	to      *server.Account
	as      string // the subject in to
	once    bool   // a request has one answer, and names the client that sent it
}

func (h handover) set() error {
	answers := server.Streamed
	if h.once {
		answers = server.Singleton
	}
	err := h.to.AddServiceExportWithResponse(h.as, answers, []*server.Account{h.from})
	if err == nil {
		err = h.from.AddServiceImport(h.to, h.subject, h.as)
	}
	if err == nil && h.once {
		err = h.from.SetServiceImportSharing(h.to, h.as, true)
	}
	return err
}

// enableJournal has the journal's account use JetStream, which the server does by
// itself only while it has no other.
func (s *Server) enableJournal(srv *server.Server) error {
	if s.config.Listen == "" {
		return nil
	}
	if err := srv.GlobalAccount().EnableJetStream(nil, nil); err != nil {
		return fmt.Errorf("enable JetStream for readers: %w", err)
	}
	return nil
}

// dropReaders deletes the consumers that readers of an earlier process left.
func (s *Server) dropReaders(ctx context.Context) error {
	streams, err := s.served(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	js, err := jetstream.New(s.conn)
	if err != nil {
		return fmt.Errorf("remove consumers of earlier readers: %w", err)
	}
	removed := 0
	for _, name := range streams {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("remove consumers of earlier readers: %w", err)
		}
		var left []string
		all := stream.ListConsumers(ctx)
		for c := range all.Info() {
			if c.Config.Metadata[readerMark] != "" {
				left = append(left, c.Name)
			}
		}
		if err := all.Err(); err != nil {
			return fmt.Errorf("remove consumers of earlier readers: %w", err)
		}
		for _, consumer := range left {
			if err := stream.DeleteConsumer(ctx, consumer); err != nil {
				return fmt.Errorf("remove consumer %s of an earlier reader: %w", consumer, err)
			}
			removed++
		}
	}
	if removed > 0 {
		s.logger.Info("consumers of earlier readers removed", "count", removed)
	}
	return nil
}
