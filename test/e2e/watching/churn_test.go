package watching_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/natsserver"
)

const (
	// churnWriters change objects at a time, each so often that all make about 100
	// changes a second.
	churnWriters  = 16
	churnInterval = 40 * time.Millisecond
	// churnNames is how many names the objects of one resource have.
	churnNames = 4
)

// offer is which versions of a custom resource are served; it is stored in v1.
type offer int

const (
	onlyV1 offer = iota
	bothVersions
	onlyV2
	offers // how many there are
)

func (o offer) versions() []any {
	switch o {
	case bothVersions:
		return []any{e2e.CustomVersion("v1", true, true), e2e.CustomVersion("v2", true, false)}
	case onlyV2:
		return []any{e2e.CustomVersion("v1", false, true), e2e.CustomVersion("v2", true, false)}
	default:
		return []any{e2e.CustomVersion("v1", true, true)}
	}
}

// churned is a custom resource that comes, changes and goes.
type churned struct {
	plural, group string
	// entry is its own one, empty if a wildcard has it. pinned: that has a version.
	entry            string
	pinned, metadata bool
	clusterScoped    bool

	// mu is held to read while an object is created: what is created while its
	// definition is removed can outlive it in etcd.
	mu sync.RWMutex
	// kind is what it is now, or was last: it can come back as another one. there:
	// it is installed, and is not being removed.
	kind  e2e.Kind
	offer offer
	there bool
	lives int
}

func (c *churned) target() string { return e2e.GroupOrCore(c.group) + "/" + c.plural }

// churnedResources are n resources that are covered in all ways there are.
func churnedResources(n int) (all []*churned) {
	for i := range n {
		c := &churned{plural: fmt.Sprintf("thing%03ds", i), clusterScoped: i%4 == 0}
		switch i % 5 {
		case 0:
			c.group = "a.wild.example.com"
		case 1:
			c.group = "b.wild.example.com"
		case 2: // it matches a wildcard as well
			c.group, c.metadata = "a.wild.example.com", true
			c.entry = fmt.Sprintf("- {group: %s, resource: %s, mode: metadata}\n", c.group, c.plural)
		case 3:
			c.group = "more.example.com"
		default:
			c.group, c.pinned = "own.example.com", i%10 == 4
			c.entry = fmt.Sprintf("- {group: %s, resource: %s}\n", c.group, c.plural)
			if c.pinned {
				c.entry = fmt.Sprintf("- {group: %s, resource: %s, version: v1}\n", c.group, c.plural)
			}
		}
		all = append(all, c)
	}
	return all
}

// churn changes custom resources and their objects at random.
type churn struct {
	t         *testing.T
	cluster   *cluster.Cluster
	client    dynamic.Interface
	resources []*churned
	random    *rand.Rand
}

// install makes the resource one of any versions, and sometimes of another kind.
func (c *churn) install(r *churned) {
	c.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kind = e2e.CustomKind(r.plural, r.clusterScoped)
	r.kind.GVR.Group = r.group
	if r.lives++; c.random.IntN(4) == 0 {
		r.kind.Kind += fmt.Sprintf("Life%d", r.lives)
	}
	r.offer = offer(c.random.IntN(int(offers)))
	definition := r.kind.Definition()
	spec := definition.Object["spec"].(map[string]any) //nolint:forcetypeassert // made here
	spec["versions"] = r.offer.versions()
	e2e.Create(c.t, e2e.CustomResourceDefinitions(c.client), definition)
	r.there = true
}

// edit changes which versions are served, or the schema.
func (c *churn) edit(r *churned, o offer) {
	c.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	e2e.EditDefinition(c.t, c.client, r.kind, func(spec map[string]any) {
		versions := o.versions()
		for _, v := range versions {
			v.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["description"] = fmt.Sprintf("edit %d", c.random.Int()) //nolint:forcetypeassert // made here
		}
		spec["versions"] = versions
	})
	r.offer = o
}

func (c *churn) remove(r *churned) {
	c.t.Helper()
	r.mu.Lock()
	r.there = false
	r.mu.Unlock()
	removeDefinition(c.t, c.client, r.kind)
}

// step is one random change of one definition.
func (c *churn) step() {
	c.t.Helper()
	r := c.resources[c.random.IntN(len(c.resources))]
	switch chance := c.random.IntN(10); {
	case !r.there:
		c.install(r)
	case chance < 3:
		c.edit(r, r.offer)
	case chance < 6:
		c.edit(r, offer(c.random.IntN(int(offers))))
	case chance < 8:
		c.remove(r)
	default:
		c.remove(r)
		c.install(r)
	}
}

// load writes objects until the returned function is called. What the API server
// refuses, since a definition is just being changed, does not matter: the truth is
// etcd's history.
func (c *churn) load(seed uint64) (end func()) {
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for i := range churnWriters {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			pace := time.NewTicker(churnInterval)
			defer pace.Stop()
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				case <-pace.C:
				}
				ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), 5*time.Second)
				_ = c.resources[random.IntN(len(c.resources))].write(ctx, c.client, random, n)
				cancel()
			}
		})
	}
	once := sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
	})
	c.t.Cleanup(once)
	return once
}

// write changes one object of the resource: creates it, else updates or deletes it.
func (c *churned) write(ctx context.Context, client dynamic.Interface, random *rand.Rand, n int) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.lives == 0 {
		return nil
	}
	k := c.kind
	if c.offer == onlyV2 {
		k.GVR.Version = "v2"
	}
	w := e2e.NewWriter(client, k, e2e.NewLedger(), 0)
	w.N = n*churnWriters + random.IntN(churnWriters)
	name := fmt.Sprintf("object-%d", random.IntN(churnNames))
	if random.IntN(4) == 0 {
		return w.Delete(ctx, name, types.UID(""))
	}
	if c.there {
		if err := w.Create(ctx, name); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return w.Update(ctx, name)
}

// TestDefinitionsChangeAtRandom: custom resources in several groups, covered by
// wildcards, by entries of their own and by both, are installed, edited, moved to
// other versions, removed and brought back as something else, while their objects
// change. Held against etcd's own history, both sinks have every state that could be
// seen, every end once, and nothing twice; and no resource is ever watched twice.
// E2E_DEFINITIONS is how many there are, E2E_DEFINITION_CHANGES how often one changes,
// E2E_SEED repeats a run.
func TestDefinitionsChangeAtRandom(t *testing.T) {
	seed := uint64(e2e.Number(t, "E2E_SEED", int(time.Now().UnixNano())))
	t.Logf("seed %d", seed)
	c := &churn{t: t, cluster: cluster.Start(t, cluster.Options{}), random: rand.New(rand.NewPCG(seed, 0)), resources: churnedResources(e2e.Number(t, "E2E_DEFINITIONS", 100))}
	c.client = dynamic.NewForConfigOrDie(e2e.Fast(c.cluster.RESTConfig()))
	p := e2e.StartProxy(t, c.cluster.RESTConfig())
	bus := natsserver.Start(t, natsserver.Options{})
	entries := `- {group: "*.wild.example.com", resource: "*"}` + "\n" + `- {group: more.example.com, resource: "thing*"}` + "\n"
	for _, r := range c.resources {
		entries += r.entry
	}
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: p.Kubeconfig, Resources: entries, Sinks: e2e.BusSink(bus.URL()), Journal: e2e.LogJournal})
	d.Start()
	e2e.Eventually(t, "what is installed comes later", func() bool { return maps.Equal(states(d), c.atFirst()) })
	undisturbed, end := c.beside(seed), c.load(seed)
	began := time.Now()
	for _, i := range c.random.Perm(len(c.resources)) {
		c.install(c.resources[i])
	}
	t.Logf("%d definitions within %v", len(c.resources), time.Since(began).Round(time.Millisecond))
	changes := e2e.Number(t, "E2E_DEFINITION_CHANGES", 100)
	began = time.Now()
	for range changes {
		c.step()
	}
	t.Logf("%d changes of definitions within %v", changes, time.Since(began).Round(time.Millisecond))
	end()
	undisturbed()
	for _, r := range c.resources {
		if r.pinned && r.there && r.offer == onlyV2 {
			c.edit(r, bothVersions)
		}
	}
	began = time.Now()
	var want, got map[string]string
	differ := func() string { return fmt.Sprintf("got %v\nwant %v", only(got, want), only(want, got)) }
	defer func() {
		if t.Failed() {
			t.Log(differ())
		}
	}()
	want = c.states()
	e2e.Eventually(t, "what is there is watched, and nothing else", func() bool { got = states(d); return maps.Equal(got, want) })
	truth := readHistory(t, c.cluster.EtcdEndpoint(), c.groups())
	fromBus := func() []e2e.Record { return e2e.ReadStream(t, bus.URL(), e2e.BusStream) }
	defer func() {
		if t.Failed() {
			t.Logf("behind:\n%s", strings.Join(truth.behind(d.Records()), "\n"))
		}
	}()
	e2e.Eventually(t, "file complete", func() bool { return truth.reached(d.Records()) })
	e2e.Eventually(t, "JetStream complete", func() bool { return truth.reached(fromBus()) })
	t.Logf("complete after %v", time.Since(began).Round(time.Millisecond))
	for sink, records := range map[string][]e2e.Record{"file": d.Records(), "jetstream": fromBus()} {
		t.Run(sink, func(t *testing.T) { c.check(t, truth, records) })
	}
	want["apiextensions.k8s.io/customresourcedefinitions"], want["apiregistration.k8s.io/apiservices"] = "live", "live"
	p.Count.Check(t, want)
	live := make(map[string]int)
	for target, state := range want {
		if group, _, _ := strings.Cut(target, "/"); state == "live" {
			live[group]++
		}
	}
	e2e.Eventually(t, "the API server has as many watches", func() bool {
		open := watchesOf(t, c.cluster.RESTConfig(), c.groups())
		return !slices.ContainsFunc(c.groups(), func(group string) bool { return open[group] != live[group] })
	})
}

// beside has another informd watch everything, and ConfigMaps, which change, by an entry of their own. What it
// returns ends that, and checks that this entry noticed nothing.
func (c *churn) beside(seed uint64) (check func()) {
	c.t.Helper()
	kinds, l := []e2e.Kind{e2e.ConfigMapKind()}, e2e.NewLedger()
	d := e2e.StartInformd(c.t, c.cluster.Kubeconfig(), "- {resource: configmaps, namespaces: [default]}\n"+everything, "")
	e2e.Eventually(c.t, "ConfigMaps are watched", func() bool { return states(d)["core/configmaps@default"] == "live" })
	end := e2e.LoadAll(c.t, c.client, kinds, l, seed)
	return func() {
		c.t.Helper()
		end()
		e2e.Eventually(c.t, "ConfigMaps complete", func() bool { return e2e.Complete(kinds, d.Records(), l) })
		e2e.Check(c.t, kinds[0], d.Records(), l, c.client, e2e.Claim{})
		d.Stop()
	}
}

// only are the entries of a that b does not have.
func only(a, b map[string]string) map[string]string {
	a = maps.Clone(a)
	maps.DeleteFunc(a, func(name, state string) bool { return b[name] == state })
	return a
}

// atFirst are the states before anything is installed: wildcards that match nothing wait
// as well.
func (c *churn) atFirst() map[string]string {
	states := c.states()
	states["*.wild.example.com/*"], states["more.example.com/thing*"] = "waiting", "waiting"
	return states
}

// states are those that the targets should have, by name.
func (c *churn) states() map[string]string {
	states := make(map[string]string)
	for _, r := range c.resources {
		if r.there {
			states[r.target()] = "live"
		} else if r.entry != "" {
			states[r.target()] = "waiting"
		}
	}
	return states
}

func states(d *e2e.Informd) map[string]string {
	d.T.Helper()
	s, err := d.Status()
	if err != nil {
		return nil
	}
	states := make(map[string]string)
	for _, target := range s.Targets {
		states[target.Target] = target.State
	}
	return states
}

func (c *churn) groups() (groups []string) {
	for _, r := range c.resources {
		groups = append(groups, r.group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// check holds a sink's records to etcd's history.
func (c *churn) check(t *testing.T, truth *history, records []e2e.Record) {
	t.Helper()
	onlyV1 := make(map[string]bool)
	for _, r := range c.resources {
		onlyV1[r.target()] = r.pinned
	}
	stream := truth.check(t, records, onlyV1)
	t.Logf("%d objects, %d revisions in etcd, %d left there by a removal; %d events; %s", len(truth.lives), truth.revisions(), truth.left(), len(records), stream)
	for _, r := range records {
		i := slices.IndexFunc(c.resources, func(one *churned) bool { return one.plural == r.Resource })
		if i < 0 || c.resources[i].group != r.Group {
			t.Errorf("%s is of no resource of the test", r.ID)
			continue
		}
		one := c.resources[i]
		if r.Op == "snapshot" {
			t.Errorf("%s is a snapshot of what came later", r.ID)
		}
		if one.pinned && r.Version != "v1" {
			t.Errorf("%s is of version %s, the entry says v1", r.ID, r.Version)
		}
		if spec := strings.Contains(string(r.Data.Object), `"spec":`); len(r.Data.Object) > 0 && spec == one.metadata {
			t.Errorf("%s: whole object: %t; its entry has the mode metadata: %t", r.ID, spec, one.metadata)
		}
	}
}
