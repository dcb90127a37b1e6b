package embedded

import (
	"context"
	"fmt"

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
	// readerMark is in the metadata of consumers that readers have made. Those without
	// it are the process's own: with another filter, say, they would leave out messages
	// without a word.
	readerMark = "informd-reader"
)

// readerRequests is what readers may ask the journal's account. What concerns consumers
// goes through the gate.
func readerRequests() []string {
	return []string{
		"$JS.API.INFO",
		"$JS.API.STREAM.NAMES",
		"$JS.API.STREAM.LIST",
		"$JS.API.STREAM.INFO.>",
		"$JS.API.STREAM.MSG.GET.>",
		"$JS.API.DIRECT.GET.>",
		"$JS.ACK.>",
	}
}

// readOnly lets a client look at streams and consume them, and nothing else.
func readOnly() *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: append(readerRequests(), consumerRequests)},
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
	imports := map[string]string{pullRequests: s.pulls + ".*.*"}
	for _, subject := range readerRequests() {
		imports[subject] = subject
	}
	for subject, as := range imports {
		err := own.AddServiceExportWithResponse(subject, server.Streamed, only)
		if err == nil {
			err = readers.AddServiceImport(own, as, subject)
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
		return fmt.Errorf("remove the consumers of readers: %w", err)
	}
	removed := 0
	for _, name := range streams {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("remove the consumers of readers: %w", err)
		}
		var left []string
		all := stream.ListConsumers(ctx)
		for c := range all.Info() {
			if c.Config.Metadata[readerMark] != "" {
				left = append(left, c.Name)
			}
		}
		if err := all.Err(); err != nil {
			return fmt.Errorf("remove the consumers of readers: %w", err)
		}
		for _, consumer := range left {
			if err := stream.DeleteConsumer(ctx, consumer); err != nil {
				return fmt.Errorf("remove the consumer %s of a reader: %w", consumer, err)
			}
			removed++
		}
	}
	if removed > 0 {
		s.logger.Info("consumers of earlier readers removed", "consumers", removed)
	}
	return nil
}
