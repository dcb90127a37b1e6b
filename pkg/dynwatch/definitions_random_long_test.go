//go:build long

package dynwatch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
)

// changingDefinitions are custom resources that come and go on a fake.
type changingDefinitions struct {
	*rig

	random *rand.Rand
	there  map[string]bool // by group
}

// TestRandomDefinitions: custom resources come and go while discovery is behind, or broken, definitions are denied or
// their watches silent, and the wanted set changes. Once all is well, each resource is watched, and nothing else.
func TestRandomDefinitions(t *testing.T) {
	seed := newSeed(t)
	api := newWildAPI(t, usual()...)
	api.define()
	c := changingDefinitions{startHasty(t, api, everything()), rand.New(rand.NewPCG(seed, 0)), make(map[string]bool)}
	all := []string{
		"apps/deployments", "apps/olds", "core/events", "core/nodes", "core/pods", "core/secrets", "core/services", "example.com/services",
		"example.com/things", "metrics.example.com/rates",
	}
	for range 10 {
		for range 12 {
			c.step()
			c.pause()
		}
		api.do(func() { api.groups.broken, api.definitions.code = false, 0 })
		c.apply(everything())
		want := slices.Clone(all)
		for group, is := range c.there {
			if is {
				want = append(want, group+"/toys")
			}
		}
		c.targets(want...)
	}
}

func (c *changingDefinitions) pause() {
	most := 50
	if c.random.IntN(8) == 0 {
		most = 500 // nobody asks any more because of a notice
	}
	<-time.After(time.Duration(c.random.IntN(most)) * time.Millisecond)
}

func (c *changingDefinitions) apply(wanted ...dynwatch.Resource) {
	must(c.t, c.manager.Apply(wanted))
}

func (c *changingDefinitions) step() {
	api := c.api
	switch c.random.IntN(8) {
	case 0:
		api.do(func() { api.groups.broken = !api.groups.broken })
	case 1:
		api.do(func() { api.definitions.code = []int{0, 403, 503}[c.random.IntN(3)]; api.definitions.generation++ })
	case 2:
		api.do(func() { api.definitions.frozen = api.definitions.watches })
	case 3:
		sets := [][]dynwatch.Resource{{everything()}, {{Resource: "pods"}}, {everything("things"), {Group: "apps", Resource: "deployments"}}}
		c.apply(sets[c.random.IntN(len(sets))]...)
	default:
		c.turn()
	}
}

// turn has a resource come or go: first its definition, then discovery, or the other way round.
func (c *changingDefinitions) turn() {
	group := fmt.Sprintf("toys%d.example.org", c.random.IntN(6))
	there := !c.there[group]
	c.there[group] = there
	define := func() {
		c.api.changeDefinition(definition{path: customDefinitions, name: "toys." + group, deleted: !there})
	}
	discover := func() {
		c.api.do(func() {
			g := c.api.groups
			g.groups = slices.DeleteFunc(g.groups, func(one fakeGroup) bool { return one.name == group })
			if there {
				g.groups = append(g.groups, fakeGroup{group, []fakeVersion{{"v1", []fakeResource{resource("toys", "Toy")}}}})
			}
			c.api.generation++ // a watch of what is removed ends
		})
	}
	if c.random.IntN(3) == 0 {
		define, discover = discover, define
	}
	define()
	c.pause()
	discover()
}
