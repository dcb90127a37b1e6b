package dynwatch_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The collections that say what is served.
const (
	customDefinitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	apiServices       = "/apis/apiregistration.k8s.io/v1/apiservices"
)

// fakeDefinitions are those of a fakeAPI, under its lock. That it serves them does
// not mean that what they say is served, as on a real one.
type fakeDefinitions struct {
	rev, oldest uint64
	history     []definition
	// code answers every request instead, if it is not 0.
	code int
	// generation ends all watches when it moves; the first frozen ones say nothing.
	generation, frozen int
	// What was asked for.
	lists, watches int
	full           bool // something was asked for that is not metadata
}

// definition is one revision of one of them.
type definition struct {
	rev        uint64
	path, name string
	deleted    bool
}

// define has the fake serve definitions from now on.
func (f *fakeAPI) define() {
	f.do(func() { f.definitions = &fakeDefinitions{rev: 10} })
	f.touch(customDefinitions, "things.example.com")
	f.touch(apiServices, "v1.example.com")
	f.touch(apiServices, "v1.")
}

// touch creates or changes one of them.
func (f *fakeAPI) touch(path, name string) { f.changeDefinition(definition{path: path, name: name}) }

// remove deletes one of them.
func (f *fakeAPI) remove(path, name string) {
	f.changeDefinition(definition{path: path, name: name, deleted: true})
}

func (f *fakeAPI) changeDefinition(c definition) {
	f.do(func() {
		d := f.definitions
		d.rev++
		c.rev = d.rev
		d.history = append(d.history, c)
	})
}

// watched reports whether both collections are watched.
func (f *fakeAPI) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.definitions.watches >= 2
}

// serveDefinitions answers what is about definitions, and reports whether it was.
func (f *fakeAPI) serveDefinitions(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != customDefinitions && r.URL.Path != apiServices {
		return false
	}
	f.mu.Lock()
	d := f.definitions
	if d == nil {
		f.mu.Unlock()
		writeStatus(w, 404, "NotFound", "no such resource")
		return true
	}
	d.full = d.full || !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
	watch, number := r.URL.Query().Get("watch") != "", 0
	switch {
	case d.code != 0:
		writeStatus(w, d.code, map[int]string{403: "Forbidden", 503: "ServiceUnavailable"}[d.code], "refused")
	case watch:
		d.watches++
		number = d.watches
	default:
		if r.URL.Query().Get("limit") != "1" && r.URL.Query().Get("fieldSelector") == "" {
			d.lists++
		}
		state := make(map[string]string)
		only, one := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		for _, c := range d.history {
			if c.path != r.URL.Path || one && c.name != only {
				continue
			}
			if state[c.name] = c.json(); c.deleted {
				delete(state, c.name)
			}
		}
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`,
			d.rev, strings.Join(slices.Collect(maps.Values(state)), ","))
	}
	code := d.code
	f.mu.Unlock()
	if watch && code == 0 {
		f.watchDefinitions(w, r, d, number)
	}
	return true
}

func (c definition) json() string {
	return fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"uid":"u","resourceVersion":"%d"}}`, c.name, c.rev)
}

func (f *fakeAPI) watchDefinitions(w http.ResponseWriter, r *http.Request, d *fakeDefinitions, number int) {
	at, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	f.mu.Lock()
	generation, oldest := d.generation, d.oldest
	f.mu.Unlock()
	if at < oldest {
		fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", statusJSON(410, "Expired", "too old"))
		return
	}
	f.stream(w, r, func() (frames []string, over bool) {
		if number <= d.frozen || d.generation != generation {
			return nil, d.generation != generation
		}
		for _, c := range d.history {
			if c.rev > at && c.path == r.URL.Path {
				frames = append(frames, fmt.Sprintf(`{"type":%q,"object":%s}`, map[bool]string{false: "MODIFIED", true: "DELETED"}[c.deleted], c.json()))
			}
		}
		at = d.rev
		return append(frames, bookmark("PartialObjectMetadata", "meta.k8s.io/v1", at)), false
	})
}
