package daemon

import (
	"context"
	"time"

	"github.com/informd/informd/internal/configfile"
)

const (
	// lookInterval is how often the config file is looked at. It is read and compared,
	// not watched: that works for every way of replacing a file (editors, ConfigMaps
	// with their symbolic links, network file systems). What that costs is waking up
	// for it; so it happens when a second of the clock ends, as what idle targets do.
	// Every second it took a quarter of the CPU time of 300 idle targets.
	lookInterval = 2 * time.Second
	// settling is how long a file must have stayed as it is: it may be being written.
	settling = 250 * time.Millisecond
)

// content is what a config file has: the hash of it, or why it cannot be read.
type content struct {
	sum     [32]byte
	problem string
}

func lookAt(path string) content {
	sum, err := configfile.Sum(path)
	if err != nil {
		return content{problem: err.Error()}
	}
	return content{sum: sum}
}

// watchConfig reloads when the file has changed, until ctx ends.
func (d *Daemon) watchConfig(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(untilLook()):
		}
		d.reloadIfChanged(ctx)
	}
}

// reloadIfChanged reloads unless the last attempt was at what the file has now. A file that is
// being written is left alone until it is the same at two looks.
func (d *Daemon) reloadIfChanged(ctx context.Context) {
	var last content
	for now := lookAt(d.config.Path); !d.reloads.knows(now); now = lookAt(d.config.Path) {
		if now == last {
			_ = d.Reload(ctx) // which has logged why it failed
			return
		}
		last = now
		select {
		case <-ctx.Done():
			return
		case <-time.After(settling):
		}
	}
}

// untilLook is the time until the config file is looked at next.
func untilLook() time.Duration {
	now := time.Now()
	return now.Truncate(lookInterval).Add(lookInterval).Sub(now)
}

// retryInterval is the least time between two attempts at the same content, where
// something else than the content was wrong: the journal was out of reach, say.
const retryInterval = 5 * time.Second

// knows reports whether there is no need for another attempt at that content.
func (r *reloads) knows(c content) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempted == c && (!r.passing || time.Since(r.at) < retryInterval)
}
