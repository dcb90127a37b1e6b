package laststate_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/laststate"
)

// TestRandomUse puts, reads and deletes in random order: what was put comes back, and what
// is left in the end is nothing.
func TestRandomUse(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	g := newGenerator(seed)
	type kept struct {
		state  *laststate.State
		object []byte
	}
	var store laststate.Store
	var all []kept
	var deployments []deployment
	for range 40 {
		deployments = append(deployments, g.deployment())
	}
	object := func() []byte {
		switch kind := g.IntN(100); {
		case kind == 0:
			return []byte(g.pick("", "{}", `{"a":1}`))
		case kind == 1:
			return random(g, 1<<g.IntN(20))
		case kind < 10:
			return g.configMap()
		default:
			// Some Deployments come and go, as far as this is concerned.
			return g.pod(deployments[g.IntN(1+g.IntN(len(deployments)))])
		}
	}
	check := func(k kept) {
		if got := store.Append([]byte("> "), k.state); string(got[:2]) != "> " || !bytes.Equal(got[2:], k.object) {
			t.Fatalf("seed %d: got %d bytes, want %d", seed, len(got)-2, len(k.object))
		}
	}
	for step := range 3000 {
		i := 0
		if len(all) > 0 {
			i = g.IntN(len(all))
		}
		switch action := g.IntN(10); {
		case len(all) == 0 || action < 4 && len(all) < 800:
			o := object()
			all = append(all, kept{store.Put(nil, o), bytes.Clone(o)})
			clear(o)
		case action < 8:
			o := object()
			all[i] = kept{store.Put(all[i].state, o), bytes.Clone(o)}
			clear(o)
		default:
			store.Delete(all[i].state)
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
		}
		if step%500 == 0 {
			for _, k := range all {
				check(k)
			}
		} else if i < len(all) {
			check(all[i])
		}
	}
	for _, k := range all {
		check(k)
		store.Delete(k.state)
	}
	if got, most := store.Bytes(), uint64(700<<10); got > most { // two candidates and the scratch
		t.Errorf("seed %d: %d bytes for nothing, want at most %d", seed, got, most)
	}
}

// TestBytes holds that Bytes is the sum of what there is, however much of it went: the
// number of dictionaries that are allowed falls with that of the states.
func TestBytes(t *testing.T) {
	const hard = 1795311308361018599 // with it, an object's dictionary goes while the object is put
	checkBytes(t, hard, 2000, 2)
	checkBytes(t, uint64(time.Now().UnixNano()), 500, 4)
}

// checkBytes grows and shrinks a store by turns, in so many phases of that many steps.
func checkBytes(t *testing.T, seed uint64, phase, phases int) {
	t.Helper()
	g := newGenerator(seed)
	var store laststate.Store
	var states []*laststate.State
	check := func(step int) {
		t.Helper()
		if got, want := store.Bytes(), store.Sum(states); got != want {
			t.Fatalf("seed %d, step %d, %d states: Bytes = %d, and there are %d", seed, step, len(states), got, want)
		}
	}
	var deployments []deployment
	for step := range phases * phase {
		if step%250 == 0 { // others come
			deployments = deployments[:0]
			for range 12 {
				deployments = append(deployments, g.deployment())
			}
		}
		most := []int{phase, 100}[step/phase%2]
		object := g.pod(deployments[g.IntN(len(deployments))])
		switch i := g.IntN(1 + len(states)); {
		case i == len(states), len(states) < most && g.IntN(10) < 8:
			states = append(states, store.Put(nil, object))
		case len(states) > most && g.IntN(10) < 8:
			store.Delete(states[i])
			states[i] = states[len(states)-1]
			states = states[:len(states)-1]
		default:
			states[i] = store.Put(states[i], object)
		}
		if step%10 == 0 {
			check(step)
		}
	}
	for len(states) > 0 {
		store.Delete(states[0])
		states = states[1:]
	}
	check(phases * phase)
}

// random returns bytes that nothing can be done with.
func random(g generator, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

// TestMemory holds what the package's comment says of the memory, and that Bytes says the
// truth about it.
func TestMemory(t *testing.T) {
	g := newGenerator(1)
	few, _ := g.pods(4, 500)
	many, _ := g.pods(400, 5)
	single, _ := g.pods(2000, 1)
	mixed, _ := g.pods(40, 50)
	g.Shuffle(len(mixed), func(i, k int) { mixed[i], mixed[k] = mixed[k], mixed[i] })
	var configMaps [][]byte
	for range 2000 {
		configMaps = append(configMaps, g.configMap())
	}
	for _, tt := range []struct {
		name    string
		objects [][]byte
		most    int // bytes for an object
	}{
		{"pods of 4 deployments", few, 700},
		{"pods of 40 deployments, mixed", mixed, 1300},
		{"pods of 400 deployments", many, 1500},
		{"pods without siblings", single, 1300},
		{"configmaps", configMaps, 1800},
		{"3 pods", few[:3], 5000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var store laststate.Store
			before := heap()
			var states []*laststate.State
			size := 0
			for _, o := range tt.objects {
				states = append(states, store.Put(nil, o))
				size += len(o)
			}
			taken, told := heap()-before, int(store.Bytes())
			n := len(tt.objects)
			t.Logf("%d B for an object of %d B, %d B on the heap", told/n, size/n, taken/n)
			if told/n > tt.most {
				t.Errorf("%d bytes for an object, want at most %d", told/n, tt.most)
			}
			if n > 100 && (told < taken*3/4 || told > taken*5/4) {
				t.Errorf("Bytes = %d, and it takes %d", told, taken)
			}
			runtime.KeepAlive(states)
		})
	}
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func BenchmarkPut(b *testing.B) {
	g := newGenerator(1)
	few, _ := g.pods(4, 200)
	single, _ := g.pods(800, 1)
	var configMaps [][]byte
	for range 800 {
		configMaps = append(configMaps, g.configMap())
	}
	for _, bb := range []struct {
		name    string
		objects [][]byte
	}{{"pods of 4 deployments", few}, {"pods without siblings", single}, {"configmaps", configMaps}} {
		for _, kind := range []string{"new", "again"} {
			b.Run(fmt.Sprintf("%s/%s", bb.name, kind), func(b *testing.B) {
				var store laststate.Store
				var states []*laststate.State
				for _, o := range bb.objects {
					states = append(states, store.Put(nil, o))
				}
				perObject := float64(store.Bytes()) / float64(len(states))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					at := i % len(states)
					if kind == "new" {
						store.Delete(states[at])
						states[at] = nil
					}
					states[at] = store.Put(states[at], bb.objects[at])
				}
				b.ReportMetric(perObject, "B/object")
			})
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	g := newGenerator(1)
	few, _ := g.pods(4, 200)
	var store laststate.Store
	var states []*laststate.State
	for _, o := range few {
		states = append(states, store.Put(nil, o))
	}
	var dst []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		dst = store.Append(dst[:0], states[i%len(states)])
	}
}
