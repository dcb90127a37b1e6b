package chaos

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/informd/informd/test/cluster"
)

// bump is by how much etcd's documentation for Kubernetes raises the revision of a
// restored etcd.
const bump = 1_000_000_000

// restoreEtcd puts an older copy of its data under etcd, without raising the
// revision, as happens to those who restore by hand.
func restoreEtcd(a *attack) error {
	data, copied := a.cluster.Dir()+"/etcd", a.dir.Join("etcd-copy")
	if err := a.copyEtcd(data, copied); err != nil {
		return err
	}
	a.hold(4*time.Second, 8*time.Second)
	resume := a.workload.Pause()
	defer resume()
	if err := a.killAPIServers(); err != nil {
		return err
	}
	err := a.replaceEtcd(0, func(ctx context.Context) error {
		if err := a.cluster.Etcd().Kill(); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(data), os.Rename(copied, data)); err != nil {
			return err
		}
		return a.cluster.Etcd().Start(ctx)
	})
	if err != nil {
		return err
	}
	if err := a.startAPIServers(); err != nil {
		return err
	}
	return a.letNotice()
}

// restoreDocumented restores etcd as etcd documents it for Kubernetes: with etcdutl,
// a raised revision and everything before it compacted, below API servers that are
// stopped or, as many do it, running.
func restoreDocumented(running bool) func(*attack) error {
	return func(a *attack) error {
		file := a.dir.Join("etcd-snapshot")
		// On a busy machine etcd needs many seconds to send its data.
		if err := a.untilWithin(time.Minute, func(ctx context.Context) error { return a.cluster.SnapshotEtcd(ctx, file) }); err != nil {
			return err
		}
		a.hold(4*time.Second, 8*time.Second)
		resume := a.workload.Pause()
		defer resume()
		// Frozen API servers are running ones that write nothing while the oracle is
		// blind.
		if err := a.leaveEtcd(running); err != nil {
			return err
		}
		err := a.replaceEtcd(bump, func(ctx context.Context) error {
			return a.cluster.RestoreEtcd(ctx, file, cluster.RestoreOptions{BumpRevision: bump, MarkCompacted: true})
		})
		if err := errors.Join(err, a.returnToEtcd(running)); err != nil {
			return err
		}
		return a.letNotice()
	}
}

func (a *attack) killAPIServers() error {
	var errs []error
	for _, s := range a.servers {
		errs = append(errs, s.Kill())
	}
	return errors.Join(errs...)
}

func (a *attack) leaveEtcd(running bool) error {
	if !running {
		return a.killAPIServers()
	}
	var errs []error
	for _, s := range a.servers {
		errs = append(errs, s.Freeze())
	}
	return errors.Join(errs...)
}

func (a *attack) returnToEtcd(running bool) error {
	if !running {
		return a.startAPIServers()
	}
	var errs []error
	for _, s := range a.servers {
		errs = append(errs, s.Thaw())
	}
	return errors.Join(errs...)
}

// replaceEtcd restores etcd while nothing writes to it, and tells the oracle and the
// consumers what that took back. The restored etcd's revision is raised by some.
func (a *attack) replaceEtcd(raised uint64, restore func(context.Context) error) error {
	if _, err := a.oracle.CatchUp(a.ctx); err != nil {
		return err
	}
	// Events expire in etcd itself, which the blind oracle would miss.
	if err := a.cluster.Etcd().Freeze(); err != nil {
		return err
	}
	a.oracle.Pause()
	if err := restore(a.ctx); err != nil {
		return err
	}
	var head uint64
	err := a.until(func(ctx context.Context) error {
		var err error
		head, err = a.oracle.Head(ctx)
		return err
	})
	if err != nil {
		return err
	}
	a.oracle.Restored(head-raised, head)
	for _, c := range a.consumers() {
		c.tracker.Restored(head - raised)
	}
	return nil
}

// copyEtcd copies etcd's data in one moment. A frozen etcd's files are those of
// one that was killed.
func (a *attack) copyEtcd(data, copied string) error {
	if err := a.cluster.Etcd().Freeze(); err != nil {
		return err
	}
	err := errors.Join(os.RemoveAll(copied), os.CopyFS(copied, os.DirFS(data)))
	return errors.Join(err, a.cluster.Etcd().Thaw())
}
