package chaos

import "time"

// serverFaults are those of two API servers behind one address that differ.
func serverFaults() []*fault {
	return []*fault{
		{"N22-servers-differ-in-lag", []string{"api", "link"}, nil, serversOfDifferentLag},
		{"N22-servers-differ-in-history", []string{"api", "link", "compaction"}, nil, serversOfDifferentHistory},
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
