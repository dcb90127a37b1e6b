package chaos

import (
	"crypto/tls"
	"math/rand/v2"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/chaos/gateway"
)

// Route is the one address of the API servers that informd knows: a load balancer.
// It sends connections straight to an API server or through the gateway, to one
// API server or to all that are up. All methods are safe for concurrent use.
type Route struct {
	link    *Link
	gateway *gateway.Gateway
	hosts   []string

	mu      sync.Mutex
	random  *rand.Rand
	down    map[int]bool
	current int  // the API server that gets all connections
	spread  bool // all API servers get connections
	proxied bool // connections go through the gateway
}

// newRoute starts the gateway before the API servers. The gateway logs in with the
// client configuration.
func (r *Rig) newRoute(client *rest.Config) (*Route, error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(r.cluster.Dir(), "serving.crt"), filepath.Join(r.cluster.Dir(), "serving.key"))
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(gateway.Options{Client: client, Hosts: r.hosts, Certificate: cert, Seed: r.options.Seed})
	if err != nil {
		return nil, err
	}
	r.closing(g.Close)
	route := &Route{
		link: r.apiLink, gateway: g, hosts: r.hosts,
		random: rand.New(rand.NewPCG(r.options.Seed, 5)), down: make(map[int]bool),
	}
	route.set(func() {})
	return route, nil
}

// Down takes an API server out of the address, as health checks do.
func (r *Route) Down(i int) {
	r.set(func() {
		r.down[i] = true
		if r.current == i {
			r.current = (i + 1) % len(r.hosts)
		}
	})
}

// Up brings an API server back behind the address.
func (r *Route) Up(i int) { r.set(func() { delete(r.down, i) }) }

// Prefer sends new connections to one API server.
func (r *Route) Prefer(i int) { r.set(func() { r.current, r.spread = i, false }) }

// Spread sends each new connection, or each request through the gateway, to an
// API server at random.
func (r *Route) Spread(on bool) { r.set(func() { r.spread = on }) }

// Through sends new connections through the gateway, or no longer.
func (r *Route) Through(on bool) { r.set(func() { r.proxied = on }) }

// Cut resets open connections, so that clients come back by the route of today.
func (r *Route) Cut() { r.link.Cut() }

func (r *Route) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	servers := []int{r.current}
	if r.spread {
		servers = servers[:0]
		for i := range r.hosts {
			if !r.down[i] {
				servers = append(servers, i)
			}
		}
	}
	r.gateway.Route(servers...)
	if r.proxied {
		r.link.SetBackend(r.gateway.Address())
		return
	}
	var hosts []string
	for _, i := range servers {
		hosts = append(hosts, r.hosts[i])
	}
	r.link.Spread(r.random.Uint64(), hosts...)
}
