package wal_test

import (
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// holdSyncs keeps each fsync of a file from returning until it gets a value.
func holdSyncs(t *testing.T, d *disktest.Disk) (begun <-chan struct{}, answer chan<- struct{}) {
	calls, answers := make(chan struct{}), make(chan struct{})
	d.Set(disktest.On("fsync", func() error {
		select {
		case calls <- struct{}{}:
			<-answers
		case <-t.Context().Done():
		}
		return nil
	}))
	t.Cleanup(func() { d.Set(disktest.Faults{}) })
	return calls, answers
}

func appendHard(t *testing.T, l *wal.Log, name string) {
	t.Helper()
	must(t, l.Writer.Append(t.Context(), []event.Event{object(name, event.Added, 1)}))
}

// TestStatesOfAnEmptyLog: a look at the states of a log without events lets nobody read what is not synced.
func TestStatesOfAnEmptyLog(t *testing.T) {
	d := disktest.New(1)
	l := open(t, d, nil)
	defer l.Abandon()
	begun, answer := holdSyncs(t, d)
	must(t, l.Writer.Put(record.Binding, "", nil))
	l.History.Lasts(nil)
	appendHard(t, l, "a")
	<-begun
	if got := l.Barrier.Readable(); got != 0 {
		t.Errorf("before the sync, up to %d is readable", got)
	}
	d.Set(disktest.Faults{})
	answer <- struct{}{}
}

// TestSlowDiskIsNoSlowFollower: while the leader's disk is slow, a follower that has all but the last moment is not late.
func TestSlowDiskIsNoSlowFollower(t *testing.T) {
	d := disktest.New(1)
	l := open(t, d, nil)
	defer l.Abandon()
	acknowledge := func() {
		files, err := l.Shipping.Files()
		must(t, err)
		l.Shipping.Acknowledge("follower", files.Active.Name, files.Active.Size)
	}
	begun, answer := holdSyncs(t, d)
	const patience = 100 * time.Millisecond
	appendHard(t, l, "a")
	<-begun
	appendHard(t, l, "b")
	acknowledge()
	<-time.After(2 * patience)
	appendHard(t, l, "c")
	answer <- struct{}{}
	<-begun // a is readable
	if late := l.Shipping.Following(patience, time.Minute).Late; len(late) > 0 {
		t.Errorf("late: %v", late)
	}
	<-time.After(2 * patience)
	if late := l.Shipping.Following(patience, time.Minute).Late; len(late) == 0 {
		t.Error("a follower that holds readers up is not late")
	}
	d.Set(disktest.Faults{})
	answer <- struct{}{}
}
