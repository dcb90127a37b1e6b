package chaos

import (
	"net/http"
	"time"

	"github.com/informd/informd/test/chaos/gateway"
)

// long is from when on a run has the time for faults of several minutes.
const long = 10 * time.Minute

// proxyFaults are those of HTTP proxies between informd and the API servers.
func proxyFaults() []*fault {
	path := []string{"link"}
	all := []*fault{
		{"N20-proxy-404-all", path, nil, answering(http.StatusNotFound, everything)},
		{"N20-proxy-404-group", path, nil, answering(http.StatusNotFound, oneGroup)},
		{"N20-proxy-404-one-server", path, nil, answering(http.StatusNotFound, oneServer)},
		{"N20-proxy-403-lists", []string{"link", "api", "compaction"}, nil, forbiddenLists},
		{"N20-proxy-502", path, nil, answering(http.StatusBadGateway, anything)},
		{"N20-proxy-503", path, nil, answering(http.StatusServiceUnavailable, anything)},
		{"N21-proxy-buffers", path, nil, misbehaving(func(a *attack) gateway.Behavior {
			return gateway.Behavior{Buffer: a.between(time.Second, 10*time.Second)}
		})},
		{"N21-proxy-late-headers", path, nil, misbehaving(func(a *attack) gateway.Behavior {
			return gateway.Behavior{HeaderDelay: a.between(500*time.Millisecond, 8*time.Second), HeadersWithBody: a.either()}
		})},
		{"N21-proxy-http1", path, nil, misbehaving(func(*attack) gateway.Behavior { return gateway.Behavior{HTTP1: true} })},
		{"N21-proxy-closes-idle", path, nil, closeIdle},
		{"N21-proxy-freezes", path, nil, freezeProxy},
	}
	return all
}

func (a *attack) either() bool { return a.random.IntN(2) == 0 }

// throughGateway does something while informd's connections go through the
// gateway. Half of the time they stay there: the gateway is sound then, and other
// faults meet it on the way.
func (a *attack) throughGateway(do func() error) error {
	a.route.Through(true)
	a.route.Cut()
	a.hold(500*time.Millisecond, 4*time.Second)
	err := do()
	a.gateway().Behave(gateway.Behavior{})
	if a.either() {
		a.hold(500*time.Millisecond, 4*time.Second)
		a.route.Through(false)
		a.route.Cut()
	}
	return err
}

func (a *attack) gateway() *gateway.Gateway { return a.route.gateway }

// misbehaving has the gateway behave badly for a while.
func misbehaving(choose func(*attack) gateway.Behavior) func(*attack) error {
	return func(a *attack) error {
		return a.throughGateway(func() error {
			a.gateway().Behave(choose(a))
			if a.either() { // open connections know nothing of a new protocol, say
				a.route.Cut()
			}
			a.hold(5*time.Second, 20*time.Second)
			return nil
		})
	}
}

// answering has the gateway answer with HTML pages for so long that a client could
// take it for the truth.
func answering(status int, narrow func(*attack, *gateway.Behavior)) func(*attack) error {
	return func(a *attack) error {
		return a.throughGateway(func() error {
			b := gateway.Behavior{Status: status}
			narrow(a, &b)
			defer a.route.Spread(false)
			a.gateway().Behave(b)
			if a.random.IntN(4) > 0 { // otherwise, open watches continue
				a.route.Cut()
			}
			if a.options.Duration >= long {
				a.hold(15*time.Second, 70*time.Second)
			} else {
				a.hold(12*time.Second, 30*time.Second)
			}
			return nil
		})
	}
}

// forbiddenLists takes the history from the watches, and has the gateway refuse the lists that
// they need then. All other requests work. Clients must not take that for empty lists.
func forbiddenLists(a *attack) error {
	return a.throughGateway(func() error {
		a.gateway().Behave(gateway.Behavior{Status: http.StatusForbidden, Lists: true})
		err := a.killAPIServers()
		if err == nil {
			err = a.startAPIServers()
		}
		if err == nil {
			err = compact(a)
		}
		a.hold(5*time.Second, 15*time.Second)
		return err
	})
}

func everything(*attack, *gateway.Behavior) {}

// oneGroup is that of a resource of the run.
func oneGroup(a *attack, b *gateway.Behavior) {
	b.Group = a.kinds[a.random.IntN(len(a.kinds))].gvr.Group
	if b.Group == "" {
		b.Group = "core"
	}
}

// oneServer is one API server of the two that share the address.
func oneServer(a *attack, b *gateway.Behavior) {
	b.Server = 1 + a.random.IntN(len(a.servers))
	a.route.Spread(true)
}

func anything(a *attack, b *gateway.Behavior) {
	[]func(*attack, *gateway.Behavior){everything, oneGroup, oneServer}[a.random.IntN(3)](a, b)
}

// closeIdle closes what was silent for 30 seconds, which quiet watches are; in
// short runs for less.
func closeIdle(a *attack) error {
	idle := 5 * time.Second
	if a.options.Duration >= long {
		idle = 30 * time.Second
	}
	return a.throughGateway(func() error {
		a.gateway().Behave(gateway.Behavior{Idle: idle})
		a.hold(3*idle/2, 3*idle)
		return nil
	})
}

// freezeProxy stops the whole proxy, or all responses of one that answers pings,
// for 3 minutes; in short runs for less.
func freezeProxy(a *attack) error {
	return a.throughGateway(func() error {
		if a.either() {
			a.gateway().Freeze()
			defer a.gateway().Thaw()
		} else {
			a.gateway().Behave(gateway.Behavior{Stall: true})
		}
		if a.options.Duration >= long {
			a.hold(3*time.Minute, 3*time.Minute)
		} else {
			a.hold(10*time.Second, 30*time.Second)
		}
		return nil
	})
}
