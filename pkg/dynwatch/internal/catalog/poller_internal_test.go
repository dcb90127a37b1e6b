package catalog

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// TestNoticeBeforeAnApply: another wanted set does not make the Poller forget that the catalog is due.
func TestNoticeBeforeAnApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm := listwatch.Timing{Tick: 15 * time.Second, Backoff: 200 * time.Millisecond, BackoffCap: 30 * time.Second, DeniedCap: 5 * time.Minute}
		periods := Periods{Noticed: time.Minute, First: 100 * time.Millisecond, Most: time.Second, Lasting: 30 * time.Second}
		p := NewPoller(nil, &Watcher{All: newNotice("")}, tm, periods, slog.New(slog.DiscardHandler))
		applied := make(chan struct{}, 1)
		p.asked = time.Now()
		p.watcher.All.Send(false)
		time.AfterFunc(10*time.Millisecond, func() { applied <- struct{}{} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for read := false; !read; {
			read = p.Wait(ctx, nil, applied)
		}
		if ctx.Err() != nil {
			t.Error("the catalog is not read")
		}
	})
}
