package daemon

import (
	"context"
	"sync"
	"time"
)

// lookEvery is the time between two looks for what is due.
const lookEvery = time.Second

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
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			now := time.Now()
			for _, what := range p.manager.Due(last, now) {
				for _, one := range p.deliveries() {
					one.Repeat(ctx, what)
				}
			}
			last = now
		}
	})
}

func (r *repeating) end() {
	if r.stop != nil {
		r.stop()
	}
	r.ended.Wait()
}
