package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// dueEvery is the time between two looks for what is due.
const dueEvery = time.Second

// repeating has each sink get the objects of targets with resnapshotEvery again, once a period, from the
// journal. What comes round while informd does not run is left out.
type repeating struct {
	stop  context.CancelFunc
	ended sync.WaitGroup
}

func (r *repeating) start(ctx context.Context, p *pipeline) {
	ctx, r.stop = context.WithCancel(ctx)
	last := time.Now()
	r.ended.Go(func() {
		ticker := time.NewTicker(dueEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			now := time.Now()
			for _, what := range p.manager.Due(last, now) {
				p.repeat(ctx, what)
			}
			last = now
		}
	})
}

// repeat asks for a re-snapshot that is due.
func (p *pipeline) repeat(ctx context.Context, what journal.Resnapshot) {
	if p.store.Durable {
		for _, one := range p.deliveries() {
			one.Repeat(ctx, what)
		}
		return
	}
	// A memory journal may have dropped what objects contain.
	resource := event.GroupOrCore(what.Begin[0].Group) + "/" + what.Begin[0].Resource
	if _, err := p.manager.Resnapshot(ctx, resource); err != nil && ctx.Err() == nil {
		p.logger.Warn("scheduled re-snapshot left out", "resource", resource, "err", err)
	}
}

func (r *repeating) end() {
	if r.stop != nil {
		r.stop()
	}
	r.ended.Wait()
}
