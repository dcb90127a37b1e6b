package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/informd/informd/test/chaos/gateway"
)

// serverFaults are those of two API servers behind one address that differ.
func serverFaults() []*fault {
	return []*fault{
		{"N22-servers-differ-in-lag", []string{"api", "link"}, nil, serversOfDifferentLag},
		{"N22-servers-differ-in-history", []string{"api", "link", "compaction"}, nil, serversOfDifferentHistory},
		{"N22-server-stuck", []string{"all"}, needsTime("N22-server-stuck"), serverStuck},
		{"N22-watches-stuck", []string{"all"}, needsTime("N22-watches-stuck"), watchesStuck},
	}
}

// spread lets connections, or requests through the gateway, go to both API servers
// while it does something.
func (a *attack) spread(do func() error) error {
	a.route.Through(a.either())
	a.route.Spread(true)
	a.route.Cut()
	err := do()
	a.route.Spread(false)
	a.route.Cut()
	return err
}

// serversOfDifferentLag has the second API server follow etcd late, while
// connections move between the two.
func serversOfDifferentLag(a *attack) error {
	return a.spread(func() error {
		a.etcdLink.Delay(a.between(50*time.Millisecond, time.Second))
		defer a.etcdLink.Heal()
		for range 3 + a.random.IntN(4) {
			a.hold(time.Second, 5*time.Second)
			a.route.Cut()
		}
		return nil
	})
}

// serversOfDifferentHistory restarts one API server, so that its watch cache begins
// now, and may take etcd's history from it, while the other one still has its own.
func serversOfDifferentHistory(a *attack) error {
	return a.spread(func() error {
		for range 1 + a.random.IntN(2) {
			i := a.random.IntN(len(a.servers))
			a.route.Down(i)
			if err := a.servers[i].Kill(); err != nil {
				return err
			}
			a.hold(500*time.Millisecond, 5*time.Second)
			if a.either() {
				if err := compact(a); err != nil {
					return err
				}
			}
			err := a.servers[i].Start(a.ctx)
			a.route.Up(i)
			if err != nil {
				return err
			}
			for range 2 + a.random.IntN(3) {
				a.route.Cut()
				a.hold(500*time.Millisecond, 4*time.Second)
			}
		}
		return nil
	})
}

// stale is when a target has to say at the latest that its watch brings nothing.
const stale = 150 * time.Second

// needsTime: a fault takes two or three minutes, in which most others wait.
func needsTime(name string) func(*Rig) string {
	return func(r *Rig) string {
		switch {
		case r.options.Baseline:
			return "the baseline says nothing about its watches"
		case r.options.Duration < long && !slices.Contains(r.options.Faults, name):
			return "needs a run of ten minutes, or to be asked for by name"
		default:
			return ""
		}
	}
}

// serverStuck has one of two API servers get nothing from etcd: its connections stay open.
func serverStuck(a *attack) error {
	a.etcdLink.Hold()
	defer a.etcdLink.Heal()
	return a.spread(func() error { return a.seesWhatIsStuck("") })
}

// watchesStuck has the watches of one of two API servers get stuck, without a word: they stay
// open, and bring bookmarks at one revision.
func watchesStuck(a *attack) error {
	a.route.Spread(true)
	defer a.route.Spread(false)
	return a.throughGateway(func() error {
		a.gateway().Behave(gateway.Behavior{StuckWatches: true, Server: 1 + a.random.IntN(len(a.servers))})
		return a.seesWhatIsStuck("core/events") // watches without bookmarks take minutes more
	})
}

// seesWhatIsStuck waits for so long that targets that bring nothing must not pass for live, except
// one.
func (a *attack) seesWhatIsStuck(except string) error {
	a.hold(stale+15*time.Second, stale+30*time.Second)
	behind := a.consumers()[0].tracker.Behind(time.Now().Add(-stale))
	ctx, cancel := context.WithTimeout(a.ctx, requestTimeout)
	defer cancel()
	targets, err := a.informds[0].Targets(ctx)
	for _, t := range targets {
		if since, ok := behind[t.Target]; ok && t.State == "live" && t.Target != except {
			a.violate(Violation{Invariant: "I16", Text: fmt.Sprintf("%s is live, and has brought nothing of what is %s old", t.Target, time.Since(since).Round(time.Second))})
		}
	}
	return err
}
