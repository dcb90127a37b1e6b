package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/informd/informd/pkg/journal/embedded/internal/storefiles"
)

const (
	// restartPause is the least time between two starts of the server, in ticks.
	restartPause = 10
	// resizePause is the time between two comparisons of the limits with the disk,
	// in ticks.
	resizePause = 5
	// sickLooks is how often in a row the server must be found sick: a stream that
	// is just being deleted looks so for a moment.
	sickLooks = 3
	// patience is how long the server may take to say how it is, in ticks. It waits
	// for the lock of each stream, which may be held while a large one is read. So long a look at
	// the files may take, too.
	patience = 60
	// writeError is what the health of a stream has for a failed write, and only then (nats-server
	// 2.15.2). Such a stream works again only in a new server.
	writeError = " write error: "
)

// watch is what the guard remembers from one look to the next.
type watch struct {
	recorded  map[string]storefiles.StreamLedger // what the ledger has
	recording error                              // of the last attempt to write it
	sick      int                                // looks in a row at which it was
	healthy   map[string]bool                    // streams that worked since the server's start
	restarted time.Time                          // the end of the last restart
	// inspected: the files were inspected, and no server has taken events since.
	inspected bool
	resized   time.Time   // when the limits were compared with the disk
	over      string      // why only a new process helps: then no server is started any more
	alarm     *time.Timer // calls hang
	// answer is what the server has been asked for, nil if nothing.
	answer chan map[string]string
}

// guard looks after the server until ctx ends.
func (s *Server) guard(ctx context.Context) {
	ticker := time.NewTicker(s.config.tick)
	defer ticker.Stop()
	w := watch{healthy: make(map[string]bool)}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			sick, err := s.ask(ctx, &w)
			w.alarm = time.AfterFunc(s.config.patience, s.hang)
			s.look(ctx, &w, sick, err)
			s.keepRecord(&w)
			s.answers(&w)
		}
	}
}

// hang notes a look at the files that takes too long: a file system that does not answer.
func (s *Server) hang() {
	s.hung.Store(true)
	s.setReason("the file system of journal.dir " + s.config.Dir + " does not answer: check it, and restart informd")
}

// answers ends the wait for the file system.
func (s *Server) answers(w *watch) {
	w.alarm.Stop()
	s.hung.Store(false)
}

// look compares the disk and the server with what they should be. It takes the answer of the
// server.
func (s *Server) look(ctx context.Context, w *watch, sick map[string]string, err error) {
	switch {
	case ctx.Err() != nil:
		return
	case w.over != "":
		s.setReason(w.over)
		return
	case err != nil:
		s.setReason(err.Error())
		return
	}
	removed := !s.lock.isIn(s.config.Dir)
	s.removed.Store(removed)
	if removed {
		s.setReason("journal.dir " + s.config.Dir + " was removed or replaced: its events are lost when informd stops; restart informd, which starts with a new snapshot")
		return
	}
	disk, err := s.config.disk(s.config.Dir)
	if err != nil {
		s.setReason("free disk space cannot be read: " + err.Error())
		return
	}
	if reserve := s.reserve(disk); disk.free < reserve {
		_ = s.resize(nil, disk) // with the limit of before, informd would fill the disk; only a reload can fail
		s.setReason(fmt.Sprintf("disk full: %s has %s free, and informd keeps %s free; free disk space, and the journal resumes by itself",
			s.config.Dir, mebibytes(disk.free), mebibytes(reserve)))
		return
	}
	why := s.whyRestart(w, disk, sick)
	switch {
	case why != "":
	case w.sick > 0:
		return // let it show whether it lasts
	default:
		s.setReason("")
		return
	}
	if time.Since(w.restarted) < restartPause*s.config.tick {
		s.setReason(why)
		return
	}
	w.sick = 0
	clear(w.healthy)
	s.restart(ctx, w, why)
	w.restarted = time.Now() // an inspection can take longer than the pause
}

// errStuck is a server that is caught in itself. It could not be stopped either.
var errStuck = errors.New("the embedded nats-server does not answer: restart informd")

// ask asks the server for what it knows of itself: the streams with a problem. After it
// was stuck it is not asked a second time at once.
func (s *Server) ask(ctx context.Context, w *watch) (map[string]string, error) {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running == nil {
		return nil, nil
	}
	if w.answer == nil {
		answer := make(chan map[string]string, 1)
		w.answer = answer
		go func() { answer <- s.config.health(running) }()
	}
	timer := time.NewTimer(s.config.patience)
	defer timer.Stop()
	select {
	case sick := <-w.answer:
		w.answer = nil
		s.stuck.Store(false)
		return sick, nil
	case <-timer.C:
		s.stuck.Store(true)
		return nil, errStuck
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// health returns the streams that the server finds something wrong with, and what.
func health(running *server.Server) map[string]string {
	sick := make(map[string]string)
	for _, e := range running.Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Details: true}).Errors {
		sick[e.Stream] = e.Error
	}
	return sick
}

// whyRestart says why the server should be started anew, "" if it should not.
func (s *Server) whyRestart(w *watch, d disk, sick map[string]string) string {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	switch {
	case running == nil:
		return "the embedded nats-server stopped"
	case !running.JetStreamEnabled():
		return "JetStream disabled itself"
	case s.config.Listen != "" && running.Addr() == nil:
		return "journal.listen is not open"
	}
	s.freePlaces(running)
	if sickness := s.sickness(w, sick); sickness != "" {
		if w.sick++; w.sick >= sickLooks {
			return sickness
		}
		return ""
	}
	w.sick = 0
	if time.Since(w.resized) < resizePause*s.config.tick {
		return ""
	}
	w.resized = time.Now()
	if err := s.resize(running, d); err != nil {
		return err.Error()
	}
	return ""
}

// sickness says what is wrong with a stream of the store, "" if nothing is: one that
// could not be written once takes no message any more, and answers no publisher. One that
// cannot be found and never worked may be in the middle of its creation, which takes seconds if
// there are messages of an earlier one.
func (s *Server) sickness(w *watch, sick map[string]string) string {
	names, err := s.store.Streams()
	if err != nil {
		return "" // the disk's trouble shows elsewhere
	}
	for _, name := range names {
		switch what, found := sick[name]; {
		case !found:
			w.healthy[name] = true
		case w.healthy[name], strings.Contains(what, writeError):
			return what
		}
	}
	return ""
}

// restart puts a new server in the place of the one that runs.
func (s *Server) restart(ctx context.Context, w *watch, why string) {
	s.logger.Warn("embedded nats-server failed; restarting it", "dir", s.config.Dir, "reason", why)
	s.keepRecord(w) // as of now: an inspection compares the files with it
	clean := s.take("the embedded nats-server is restarting: " + why)
	s.answers(w) // to read all of the files takes longer
	err := error(nil)
	if !clean && !w.inspected {
		err = s.inspectAgain(ctx)
		w.inspected = err == nil
	}
	if err == nil {
		err = s.measure()
	}
	if err == nil {
		srv, launchErr := s.launch(ctx)
		if launchErr == nil {
			s.put(srv)
			w.inspected = false
			launchErr = s.admit(ctx, srv)
		}
		if launchErr == nil {
			s.logger.Info("embedded nats-server restarted", "dir", s.config.Dir)
			return
		}
		err = launchErr
	}
	if ctx.Err() == nil {
		s.setReason(err.Error())
	}
	if errors.Is(err, errDamaged) {
		w.over = err.Error()
	}
}

// inspectAgain inspects the files of a server that did not stop in order, as the start does: the
// next server would bring back messages that this one has removed. If messages are lost, an error
// says so: then the checkpoints of a running informd are void, and only the next one can know that.
func (s *Server) inspectAgain(ctx context.Context) error {
	known := s.Damage()
	_, err := s.inspect(ctx)
	for _, damage := range s.Damage() {
		if !slices.Contains(known, damage) {
			s.stuck.Store(true)
			s.logger.Error("journal damaged; restart informd to repair it", "dir", s.config.Dir, "reason", damage)
			return fmt.Errorf("%w (%s): restart informd, which reconciles all targets", errDamaged, damage)
		}
	}
	return err
}

// errDamaged is damage to the files below a running informd.
var errDamaged = errors.New("the journal lost messages")

// setReason logs a change for the worse, and the end of it.
func (s *Server) setReason(reason string) {
	s.mu.Lock()
	before := s.reason
	s.reason = reason
	s.mu.Unlock()
	switch {
	case before == "" && reason != "":
		s.logger.Error("journal store unavailable; events wait", "dir", s.config.Dir, "reason", reason)
	case before != "" && reason == "":
		s.logger.Info("journal store recovered", "dir", s.config.Dir)
	}
}

// keepRecord writes the ledger when a block or a stream has come or gone, and the sizes of blocks
// when one has changed.
func (s *Server) keepRecord(w *watch) {
	streams, err := s.store.All()
	switch {
	case err != nil:
	case w.recorded == nil || !storefiles.SameStreams(w.recorded, streams):
		err = s.record(false)
	case w.recording != nil || !maps.EqualFunc(w.recorded, streams, maps.Equal):
		err = s.follow(streams)
	}
	if err == nil {
		w.recorded = streams
	} else if w.recording == nil {
		s.logger.Warn("journal file change not recorded; a crash may look like damage", "dir", s.config.Dir, "err", err)
	}
	w.recording = err
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
