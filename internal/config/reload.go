package config

import (
	"reflect"
	"slices"

	"github.com/informd/informd/pkg/sink"
)

// reloadable are the keys whose values a running informd can change; the others
// take effect at its start alone.
func reloadable() []string {
	return []string{"kubernetes.maxWatches", "resources", "sinks", "log.level"}
}

// Replaces reports whether a running informd can continue with next after c: an [Errors]
// names every setting, and its place in next, that differs and takes effect at the
// start alone.
func (c *Config) Replaces(next *Config) error {
	found, after := NewProblems(next.Path), Leaves(reflect.ValueOf(next).Elem(), "")
	for i, f := range Leaves(reflect.ValueOf(c).Elem(), "") {
		switch {
		case slices.Contains(reloadable(), f.Key), f.Key == "admin.socket" && c.DefaultSocket() && next.DefaultSocket():
		case !reflect.DeepEqual(f.Value.Interface(), after[i].Value.Interface()):
			found.Add(next.Places[f.Key], f.Key, "cannot change while informd runs: %s", c.remedy(f.Key))
		}
	}
	return found.Err()
}

// remedy says what to do about a key that has changed.
func (c *Config) remedy(key string) string {
	if key == "cluster" && c.Journal.Type == JournalLog {
		return "it is in every event of the journal; set it back, or restart informd with an empty journal.dir, which begins with a new snapshot"
	}
	return "restart it, or set it back"
}

// Same reports whether two entries of sinks make the same sink.
func (s Sink) Same(as Sink) bool {
	return reflect.DeepEqual(s.written(), as.written())
}

// written is the entry without what follows from the file: its place in it, and what its texts compile to.
func (s Sink) written() Sink {
	s.Pos, s.Driver, s.Match = Pos{}, sink.Driver{}, slices.Clone(s.Match)
	for i := range s.Match {
		s.Match[i].When = nil
	}
	return s
}
