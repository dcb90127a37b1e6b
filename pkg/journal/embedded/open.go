package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded/internal/storefiles"
)

// answerTimeout bounds the question to a server that has just said it is ready.
const answerTimeout = 30 * time.Second

// inspect looks at the store before a server does, and keeps what it found.
func (s *Server) inspect(ctx context.Context) (*storefiles.Inspection, error) {
	before, err := storefiles.ReadLedger(s.config.Dir)
	if err != nil {
		return nil, err
	}
	inspection := &storefiles.Inspection{
		Dir:        s.config.Dir,
		Journal:    s.config.Stream,
		Store:      s.store,
		Before:     before,
		SyncAlways: s.config.SyncAlways,
		Logger:     s.logger,
		Note: func(damage []string) error {
			noted := storefiles.Ledger{Boot: storefiles.BootID()}
			if before != nil {
				noted = *before
			}
			noted.Damage = damage
			return noted.Write(s.config.Dir)
		},
	}
	err = inspection.Run(ctx)
	s.addDamage(inspection.Damage...)
	if err != nil {
		return nil, err
	}
	return inspection, s.record(false)
}

// serve starts the first server and connects to it. A stream whose directory is
// there and which the server does not serve is set aside, once: without that the
// program would either begin from nothing without a word, or crash for ever.
func (s *Server) serve(ctx context.Context, inspection *storefiles.Inspection) error {
	srv, err := s.launch(ctx)
	if err != nil {
		return err
	}
	s.put(srv)
	conn, err := s.connect(s.identity)
	if err != nil {
		s.take("")
		return err
	}
	s.conn = conn
	if err = s.dropReaders(ctx); err == nil {
		s.gate, err = s.openGate()
	}
	if err != nil {
		conn.Close()
		s.take("")
		return err
	}
	unserved, err := s.unserved(ctx)
	if err == nil && len(unserved) > 0 {
		err = s.serveWithout(ctx, inspection, unserved)
	}
	if err == nil {
		err = s.admit(ctx, s.running)
	}
	if err != nil {
		s.gate.close()
		conn.Close()
		s.take("")
		return err
	}
	s.addDamage(inspection.Damage...)
	return s.record(false)
}

// unserved returns the streams of the store that have messages and metadata and
// are not served.
func (s *Server) unserved(ctx context.Context) ([]string, error) {
	names, err := s.store.Streams()
	if err != nil {
		return nil, err
	}
	served, err := s.served(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool {
		files, err := s.store.Files(name)
		return slices.Contains(served, name) || !s.store.HasMetadata(name) || err == nil && len(files.Blocks()) == 0
	}), nil
}

func (s *Server) served(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	js, err := jetstream.New(s.conn)
	if err != nil {
		return nil, fmt.Errorf("list the streams of the embedded nats-server: %w", err)
	}
	var names []string
	lister := js.StreamNames(ctx)
	for name := range lister.Name() {
		names = append(names, name)
	}
	if err := lister.Err(); err != nil {
		return nil, fmt.Errorf("list the streams of the embedded nats-server: %w", err)
	}
	return names, nil
}

// serveWithout starts the server anew without those streams.
func (s *Server) serveWithout(ctx context.Context, inspection *storefiles.Inspection, streams []string) error {
	s.take("a damaged stream is being set aside")
	for _, name := range streams {
		inspection.Found("nats-server cannot read the stream", "stream", name)
		if err := inspection.SetAsideStream(name); err != nil {
			return err
		}
	}
	srv, err := s.launch(ctx)
	if err != nil {
		return err
	}
	s.put(srv)
	return nil
}

// put makes a server the one that the connection goes to.
func (s *Server) put(srv *server.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.reason = srv, ""
}

// take stops the server that runs, if any, and waits for it. It reports whether the server worked
// until then and has written all of its state, so that the files need no inspection.
func (s *Server) take(reason string) (clean bool) {
	s.mu.Lock()
	srv := s.running
	s.running, s.reason = nil, reason
	s.mu.Unlock()
	if srv == nil {
		return false
	}
	worked := srv.JetStreamEnabled()
	shutDown(srv)
	return worked && s.store.Indexed()
}

// addDamage adds what is not known yet.
func (s *Server) addDamage(damage ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range damage {
		if !slices.Contains(s.damage, one) {
			s.damage = append(s.damage, one)
		}
	}
}

// record writes the ledger. Blocks have their second name before the ledger knows
// them, and keep it for as long as it does.
func (s *Server) record(clean bool) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	streams, err := s.store.All()
	if err != nil {
		return err
	}
	if !clean {
		s.holder.Hold(streams)
	}
	l := storefiles.Ledger{Clean: clean, Boot: storefiles.BootID(), Streams: streams, Damage: s.Damage()}
	err = l.Write(s.config.Dir)
	if clean && err == nil {
		return s.holder.ReleaseAll()
	}
	// Also if it could not be written: on a full disk the room is needed.
	return errors.Join(err, s.holder.Release(streams), s.holder.Sizes().Write(s.config.Dir))
}

// follow notes blocks that were written again, and how long all are.
func (s *Server) follow(streams map[string]storefiles.StreamLedger) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	s.holder.Hold(streams)
	return s.holder.Sizes().Write(s.config.Dir)
}
