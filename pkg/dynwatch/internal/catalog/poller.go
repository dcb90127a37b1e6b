package catalog

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// Periods are the times of rediscovery.
type Periods struct {
	// Noticed is the pause between polls for what a Watcher would notice.
	Noticed time.Duration
	// First is the pause between the first two requests after a notice. It doubles, up to
	// Most for a target that waits, until Lasting has passed.
	First, Most, Lasting time.Duration
	// Unserved is how long a custom resource must have been without its definition before
	// its objects count as deleted, and Withdrawn how long any other resource must have
	// been missing: an operator's upgrade removes an APIService and creates it again.
	Unserved, Withdrawn time.Duration
}

// Series are the requests that follow a notice, in growing intervals for a while: discovery
// follows a definition some 100 ms later, and one API server after the other.
type Series struct {
	until time.Time
	pause wait.Backoff
}

// Begin begins the series again.
func (s *Series) Begin(lasting, first time.Duration, factor float64) {
	s.until = time.Now().Add(lasting)
	s.pause = wait.Backoff{Duration: first, Factor: factor, Jitter: 0.2, Steps: 30}
}

// Next returns how long to wait before the request after this one, false if there is none.
func (s *Series) Next() (time.Duration, bool) {
	if !time.Now().Before(s.until) {
		return 0, false
	}
	return s.pause.Step(), true
}

// maxAge is how old a catalog may become even if nothing is known to have changed.
const maxAge = 24 * time.Hour

// Poller reads the whole catalog when it may have changed, but so rarely that its size does
// not matter. It belongs to one goroutine.
type Poller struct {
	clients *kube.Clients
	watcher *Watcher
	timing  listwatch.Timing
	periods Periods
	logger  *slog.Logger

	asked  time.Time
	series Series
	pause  wait.Backoff
	// stale are the groups that could not be asked.
	stale string
	// behind: a definition is there whose resource a wildcard matches and discovery does not list. Lag are the pauses
	// then.
	behind bool
	lag    wait.Backoff
}

// NewPoller makes a Poller that has read nothing.
func NewPoller(c *kube.Clients, w *Watcher, tm listwatch.Timing, p Periods, logger *slog.Logger) *Poller {
	return &Poller{
		clients: c, watcher: w, timing: tm, periods: p, logger: logger,
		pause: kube.Backoff(tm.Backoff, tm.BackoffCap), lag: kube.Backoff(p.Most/2, p.Noticed),
	}
}

// Read asks for a catalog, for the wildcards of a set. With an error it returns the one before.
func (p *Poller) Read(ctx context.Context, before *Catalog, s *Set) (*Catalog, error) {
	p.asked = time.Now()
	c, err := Read(ctx, p.clients, before)
	if err != nil {
		return before, err
	}
	p.logStale(c)
	if p.behind = p.watcher.Ahead(c, s); !p.behind {
		p.lag = kube.Backoff(p.periods.Most/2, p.periods.Noticed)
	}
	return c, nil
}

// logStale logs which groups cannot be asked, when that changes.
func (p *Poller) logStale(c *Catalog) {
	stale := strings.Join(c.Stale(), ", ")
	if stale == p.stale {
		return
	}
	p.stale = stale
	if stale == "" {
		p.logger.Info("discovery of every API group works again")
		return
	}
	p.logger.Warn("discovery of API groups failed; wildcard watches in them continue", "groups", stale)
}

// Wait waits until the catalog is due again, and returns true, or until applied. Then it
// returns whether the attempt before failed with err, or there was a notice since.
func (p *Poller) Wait(ctx context.Context, err error, applied <-chan struct{}) (read bool) {
	if err == nil {
		p.pause = kube.Backoff(p.timing.Backoff, p.timing.BackoffCap)
	}
	all, woken := p.watcher.All, false
	due := time.Now().Add(p.period(err))
	wake := all.Wake
	if _, ok := kube.SuggestedDelay(err); ok {
		wake = nil
	}
	watching := p.watcher.Watching()
	for {
		timer := time.NewTimer(min(time.Until(due), p.timing.Tick))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-applied:
			timer.Stop()
			return err != nil || woken
		case <-wake:
			if woken = true; all.Changed.Swap(false) {
				p.series.Begin(p.periods.Lasting, p.periods.Most/2, 1.5)
			}
			// Changes that come together cause one request.
			due = earlier(due, time.Now().Add(max(p.periods.First, p.periods.Most/2-time.Since(p.asked))))
		}
		timer.Stop()
		if ctx.Err() != nil || !time.Now().Before(due) {
			return true
		}
		if watching && !p.watcher.Watching() {
			watching, due = false, earlier(due, time.Now().Add(p.timing.DeniedCap)) // no notice would come
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// period is how long to wait if nothing happens.
func (p *Poller) period(err error) time.Duration {
	if err != nil {
		d := p.pause.Step()
		if wait, ok := kube.SuggestedDelay(err); ok {
			d = max(d, wait)
		}
		return d
	}
	d := maxAge
	if !p.watcher.Watching() {
		d = min(d, p.timing.DeniedCap)
	}
	if p.stale != "" {
		d = min(d, p.periods.Noticed)
	}
	if p.behind {
		d = min(d, p.lag.Step())
	}
	if soon, more := p.series.Next(); more {
		d = min(d, soon)
	}
	return d
}
