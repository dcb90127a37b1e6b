package journal_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/internal/disk"
)

// slowDisk is a directory whose syncs of files take longer, as those of a network disk.
type slowDisk struct {
	disk.Dir

	takes time.Duration
}

func (d slowDisk) Create(name string) (disk.File, error) {
	f, err := d.Dir.Create(name)
	return slowFile{f, d.takes}, err
}

type slowFile struct {
	disk.File

	takes time.Duration
}

func (f slowFile) Sync() error {
	<-time.After(f.takes)
	return f.File.Sync()
}

// BenchmarkLatency is the time from Append to the return of Read, at 1,000 events/s of 5 KB, of which a
// share are new objects. An operation is one event.
func BenchmarkLatency(b *testing.B) {
	for _, takes := range []time.Duration{0, 20 * time.Millisecond} {
		for _, sync := range []journal.Sync{journal.SyncRows, journal.SyncAlways, journal.SyncNever} {
			for _, created := range []int{0, 10, 50} {
				b.Run(fmt.Sprintf("sync=%s/more=%v/created=%d%%", sync, takes, created), func(b *testing.B) {
					latency(b, takes, sync, created)
				})
			}
		}
	}
}

func latency(b *testing.B, takes time.Duration, mode journal.Sync, created int) {
	b.Helper()
	dir, _, err := disk.Open(b.TempDir())
	must(b, err)
	j, err := journal.OpenOn(slowDisk{dir, takes}, journal.Config{Cluster: "bench", Sync: mode, Logger: slog.New(slog.DiscardHandler)}, "boot", 16<<20)
	must(b, err)
	c, err := j.Open("sink", journal.FromNow)
	must(b, err)
	appended, took := make([]time.Time, b.N+1), make([]float64, 0, b.N)
	var at sync.Mutex // guards appended
	var reading sync.WaitGroup
	reading.Go(func() {
		for len(took) < b.N {
			entries, err := c.Read(b.Context(), 256)
			if err != nil {
				b.Error(err)
				return
			}
			now := time.Now()
			at.Lock()
			for _, e := range entries {
				took = append(took, now.Sub(appended[e.Event.ResourceVersion]).Seconds()*1e3)
			}
			at.Unlock()
			if err := c.Commit(entries[len(entries)-1].Seq); err != nil {
				b.Error(err)
				return
			}
		}
	})
	data := make([]byte, 5000)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	b.ResetTimer()
	for i := range b.N {
		<-tick.C
		e := event.Event{Op: event.Modified, Cluster: "bench", Target: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "default", Name: fmt.Sprint("pod-", i%1000), UID: fmt.Sprint(i % 1000), ResourceVersion: uint64(i + 1), Data: data}
		if i%100 < created {
			e.Op, e.Name, e.UID = event.Added, fmt.Sprint("new-", i), fmt.Sprint("new-", i)
		}
		e.ID = form.ObjectID(e.UID, e.ResourceVersion, 0)
		at.Lock()
		appended[i+1] = time.Now()
		at.Unlock()
		must(b, j.Append(b.Context(), []event.Event{e}))
	}
	reading.Wait()
	b.StopTimer()
	must(b, j.Close())
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "ms-p50")
	b.ReportMetric(took[len(took)*99/100], "ms-p99")
	b.ReportMetric(0, "ns/op") // the rate is fixed
}
