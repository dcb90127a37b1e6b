package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/natsconn"
)

// complaint shows what the journal's server says out of turn, and why no connection to it
// can be made: wrong credentials, a denied permission, no server. Its methods may be
// called concurrently.
type complaint struct {
	logger *slog.Logger
	health *Health

	mu   sync.Mutex
	last string // what was logged last
}

// take logs an error once, and has the state show it.
func (c *complaint) take(err error) {
	if err == nil || errors.Is(err, nats.ErrNoServers) { // which says less than the one before
		return
	}
	level := slog.LevelWarn
	explained := natsconn.Explain(err, "journal.")
	if explained != err { //nolint:errorlint // identity: an explained error names what to correct
		level = slog.LevelError
	}
	err = explained
	c.health.complain(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := err.Error(); text != c.last {
		c.last = text
		c.logger.Log(context.Background(), level, "journal server unavailable; retrying", "err", err)
	}
}

// over says that there is a connection.
func (c *complaint) over() {
	c.health.complain(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = ""
}

// connectPoll is how often the first connection is asked why it is not there.
const connectPoll = 250 * time.Millisecond

// watch shows why there is no connection yet: the library (nats.go 1.55) reports refused
// credentials only once it was connected. It ends with ctx.
func (c *complaint) watch(ctx context.Context, conn *nats.Conn) {
	poll := time.NewTicker(connectPoll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
		if !conn.IsConnected() {
			c.take(conn.LastError())
		}
	}
}
