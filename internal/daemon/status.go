package daemon

import (
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
)

// adminOptions tells the admin server whom to ask.
func (d *Daemon) adminOptions(version string, metrics prometheus.Gatherer) admin.Options {
	return admin.Options{
		Admin: d.config.Admin, SocketOptional: d.config.DefaultSocket(),
		Version: version, Cluster: d.config.Cluster,
		Targets: d.targets, Sinks: d.sinks, DeadLetters: d.deadLetters, Journal: d.journalStatus,
		Follower: d.follower.Load, Operator: operator{d}, Forward: d.forward, Log: d.logHandler(),
		Config:  func() *admin.Config { return d.reloads.status(d.config.Path) },
		Metrics: metrics, Logger: d.logger,
	}
}

func (d *Daemon) targets() []admin.Target {
	p := d.pipeline.Load()
	if p == nil {
		return []admin.Target{}
	}
	states := p.manager.Targets()
	all := make([]admin.Target, len(states))
	for i, t := range states {
		events := uint64(0)
		for _, n := range t.Events {
			events += n
		}
		all[i] = admin.Target{
			Target: t.Name, Group: t.Group, Version: t.Version, Kind: t.Kind, Mode: string(t.Mode),
			State: string(t.State), Reason: t.Reason, MissingVerbs: t.MissingVerbs, Since: t.Since, Synced: t.Synced,
			Objects: t.Objects, Events: events, EventsPerSecond: thousandths(t.EventsPerSecond), ResourceVersion: t.ResourceVersion, Epoch: t.Epoch,
			LastProgress: t.Progress, Blocked: !t.BlockedSince.IsZero(), BlockedSince: t.BlockedSince, Rejected: t.Rejected,
			LastAudit: t.Audited, Divergences: t.Divergences,
			Stuck: t.Stuck, Looked: t.Looked, Beat: t.Beat,
		}
	}
	return all
}

func (d *Daemon) sinks() []deliver.Status {
	all := []deliver.Status{}
	if p := d.pipeline.Load(); p != nil {
		for _, one := range p.deliveries() {
			all = append(all, one.Status())
		}
	}
	return all
}

// deadLetters returns the length of each dead-letter queue that is not empty.
func (d *Daemon) deadLetters() map[string]uint64 {
	if p := d.pipeline.Load(); p != nil {
		return p.store.LetterCounts()
	}
	return nil
}

// sinkNames returns the names of the sinks of the config.
func (d *Daemon) sinkNames() []string {
	if p := d.pipeline.Load(); p != nil {
		return names(p.deliveries())
	}
	return nil
}

func (d *Daemon) journalStatus() admin.Journal {
	j := admin.Journal{Type: d.config.Journal.Type}
	p := d.pipeline.Load()
	if p == nil {
		j.Problem, j.Unusable = "it is not open yet", true
		return j
	}
	s := p.store.Stats()
	j.Events, j.Bytes, j.Capacity, j.LastSeq, j.Blocked = s.Events, s.Bytes, s.Capacity, s.LastSeq, s.Blocked
	j.Lost, j.Dropped = s.Lost, s.Dropped
	_, problem := p.store.State()
	j.Problem, j.Unusable, j.Stuck = display.Reason(problem), p.store.Removed(), p.store.Hung()
	return j
}

// journalUsable reports whether the journal can be used, and whether this informd writes to it: a follower
// does not.
func (d *Daemon) journalUsable() (ok, mine bool) {
	p := d.pipeline.Load()
	if p == nil {
		return false, d.follower.Load() == nil
	}
	ok, _ = p.store.State()
	return ok, true
}

// notOpen says why the journal is not open, for commands that use it.
func (d *Daemon) notOpen() error {
	if f := d.follower.Load(); f != nil && f.Leader != "" {
		return fmt.Errorf("this informd follows %s, which has the sinks: send the command to that one", f.Leader)
	} else if f != nil {
		return errors.New("this informd waits for the lease, and nobody leads")
	}
	return errNotOpen
}

// thousandths leaves out digits that nobody wants to read.
func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }
