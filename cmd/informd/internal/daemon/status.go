package daemon

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/cmd/informd/internal/admin"
)

// adminOptions tells the admin server whom to ask.
func (d *Daemon) adminOptions(version string, metrics prometheus.Gatherer) admin.Options {
	return admin.Options{
		Listen: d.config.Admin.Listen, Version: version, Cluster: d.config.Cluster,
		Targets: d.targets, Sinks: d.sinks, Journal: d.journalStatus, Metrics: metrics, Logger: d.logger,
	}
}

func (d *Daemon) targets() []admin.Target {
	states := d.manager.Targets()
	all := make([]admin.Target, len(states))
	for i, t := range states {
		all[i] = admin.Target{
			Target: t.Name, Group: t.Group, Version: t.Version, Kind: t.Kind, Mode: string(t.Mode),
			State: string(t.State), Reason: t.Reason, Since: t.Since, Synced: t.Synced,
			Objects: t.Objects, ResourceVersion: t.ResourceVersion, Epoch: t.Epoch,
			LastProgress: orNil(t.Progress), Blocked: t.Blocked, Rejected: t.Rejected,
			Looked: t.Looked, Beat: t.Beat,
		}
	}
	return all
}

func (d *Daemon) sinks() []admin.Sink {
	all := make([]admin.Sink, len(d.runners))
	for i, r := range d.runners {
		s := r.Status()
		all[i] = admin.Sink{
			Name: s.Name, Type: s.Type, State: string(s.State), LagEvents: s.Lag.Events, LagSeconds: s.Lag.Seconds,
			Delivered: s.Delivered, Filtered: s.Filtered, DeadLetters: s.DeadLetters, Retries: s.Retries,
			LastError: s.LastError, LastErrorAt: orNil(s.LastErrorTime), LastSuccess: orNil(s.LastSuccess),
		}
	}
	return all
}

func (d *Daemon) journalStatus() admin.Journal {
	s := d.journal.Stats()
	return admin.Journal{
		Type: d.config.Journal.Type, Events: s.Events, Bytes: s.Bytes, Capacity: s.Capacity, LastSeq: s.LastSeq, Blocked: s.Blocked,
	}
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
