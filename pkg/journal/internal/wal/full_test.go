package wal_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

// TestSyncOnAFullDisk: a sync that has failed is final, also for want of space: calls do not wait for that.
func TestSyncOnAFullDisk(t *testing.T) {
	d := disktest.New(1)
	l := open(t, d, nil)
	defer l.Abandon()
	d.Set(disktest.Faults{Before: func(call, _ string) error {
		if call == "fsync" {
			return syscall.ENOSPC
		}
		return nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if err := l.Append(ctx, []event.Event{object("a", event.Added, 1)}); err != nil {
			if !errors.Is(err, l.Failure()) || l.Failure() == nil {
				t.Errorf("Append: %v; the log has failed with %v", err, l.Failure())
			}
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Errorf("Append goes on: %v", l.Failure())
}
