package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/natsconn"
)

// failingFor is how long a call to the journal's server must fail before the journal
// counts as unusable: the server elects its leaders in less.
const failingFor = 5 * time.Second

// Health is what is known of a journal in the user's server. Its methods may be called
// concurrently.
type Health struct {
	mu sync.Mutex
	// failing are the calls that fail at the moment, by name.
	failing map[string]failure
	// complaint is what the server said out of turn, or why there is no connection: wrong
	// credentials, a denied permission, no server. complained is when it came, and logged the
	// text of the last one in the log.
	complaint  error
	complained time.Time
	logged     string
	// problem and held ask the relay and the lease; nil while the journal is not open.
	problem func() string
	held    func() error
}

type failure struct {
	since, last time.Time
	err         error
}

// repeatedWithin is for how long a failure or a complaint counts that is not repeated. A call
// that fails is tried again within half of that, unless its caller has given up or the journal
// was opened again.
const repeatedWithin = 15 * time.Second

// current reports whether the call still fails, as far as is known.
func (f failure) current() bool { return time.Since(f.last) < repeatedWithin }

// NewHealth returns the health of a journal that is not open yet.
func NewHealth() *Health { return &Health{failing: make(map[string]failure)} }

// report is [jetstream.Config.Report].
func (h *Health) report(call string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failing, call)
		return
	}
	f, ok := h.failing[call]
	if !ok || !f.current() {
		f.since = time.Now()
	}
	f.last, f.err = time.Now(), err
	h.failing[call] = f
}

// complain notes a complaint, and logs it once.
func (h *Health) complain(err error, logger *slog.Logger) {
	if err == nil || errors.Is(err, nats.ErrNoServers) { // which says less than the one before
		return
	}
	level := slog.LevelWarn
	explained := natsconn.Explain(err, "journal.")
	if explained != err { //nolint:errorlint // identity: an explained error names what to correct
		level = slog.LevelError
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.complaint, h.complained = explained, time.Now()
	if text := explained.Error(); text != h.logged {
		h.logged = text
		logger.Log(context.Background(), level, "journal server unavailable; retrying", "err", explained)
	}
}

// connected notes that there is a new connection.
func (h *Health) connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.complaint, h.logged = nil, ""
}

// connectPoll is how often the first connection is asked why it is not there.
const connectPoll = 250 * time.Millisecond

// watchConnection shows why there is no connection yet: the library (nats.go 1.55) reports refused
// credentials only once it was connected. It ends with ctx.
func (h *Health) watchConnection(ctx context.Context, conn *nats.Conn, logger *slog.Logger) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if !conn.IsConnected() {
			h.complain(conn.LastError(), logger)
		}
	}, connectPoll)
}

// watch has state ask the relay and the lease, too.
func (h *Health) watch(problem func() string, held func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem, h.held = problem, held
}

// HoldsLease reports whether this informd holds the lease.
func (h *Health) HoldsLease() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held != nil && h.held() == nil
}

// State says whether the journal can be used, and why not.
func (h *Health) State() (ok bool, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.complaint != nil && time.Since(h.complained) < repeatedWithin {
		return false, h.complaint.Error()
	}
	if h.problem != nil {
		if reason := h.problem(); reason != "" {
			return false, reason
		}
	}
	if h.held != nil {
		if err := h.held(); err != nil {
			return false, err.Error()
		}
	}
	for _, call := range slices.Sorted(maps.Keys(h.failing)) {
		if f := h.failing[call]; f.current() && (h.problem == nil || time.Since(f.since) >= failingFor) {
			return false, fmt.Sprintf("%s fails since %s: %v", call, time.Since(f.since).Round(time.Second), f.err)
		}
	}
	return true, ""
}
