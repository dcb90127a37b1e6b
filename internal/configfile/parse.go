// Package configfile reads the YAML file, the flags and the INFORMD_* environment
// into one checked [config.Config], or into all of its mistakes at once, each located
// by file, line, column and key ([config.Errors]).
//
// It does not connect to anything: whether a resource exists or a destination
// answers is for the packages that use the Config to find out. The subcommands
// of informd call [AddFlags] and [Load]; tests that hold manifests to the same
// rules call [Parse].
//
// # Precedence
//
// Flag, then environment variable, then file, then default. Every single value
// outside of resources and sinks has a variable: INFORMD_ and the key in upper
// case, words and levels joined with "_", so that journal.maxBytes is
// INFORMD_JOURNAL_MAX_BYTES. A variable that is set to nothing counts as not
// set. One that matches no key is worth a warning ([config.Config.Warnings]), unless it is of
// those that the kubelet makes, such as INFORMD_SERVICE_HOST for a Service called
// informd.
//
// # Where to find what
//
//   - load.go, override.go: which file, and the flags and variables over it, and variables
//     without effect
//   - parse.go: the stages
//   - syntax.go, tree.go, explain.go: bytes to a tree whose nodes know their place, and why a text is not YAML
//   - decode.go, entries.go, connection.go: the tree into the settings, strictly
//   - schema.go: the JSON Schema of the settings
//   - check.go and the like, replicas.go, when.go, names.go: the rules beyond types
package configfile

import (
	"crypto/sha256"
	"reflect"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/when"
	"github.com/informd/informd/pkg/sink"
)

// Parse reads a config from body, which it does not keep. File is what errors
// call it. Flags and INFORMD_* variables have no say; $STATE_DIRECTORY and the
// variables that secrets refer to are read. Its error is a [config.Errors].
func Parse(file string, body []byte, drivers []sink.Driver) (*config.Config, error) {
	return newReading(file, drivers).config(body, nil)
}

// reading is one reading of one config: what it has found so far.
type reading struct {
	document
	drivers []sink.Driver
	when    *when.Compiler        // nil until there is an expression
	places  map[string]config.Pos // of each value that was decoded, by key path
	origins map[string]string     // the flag or variable that set a key, by key path
	// split has each address that is one of several in a variable, or comes after one, by the
	// key path that it has in the decoded list.
	split   map[string]splitAddress
	visited int
}

func newReading(file string, drivers []sink.Driver) *reading {
	return &reading{
		document: document{Problems: config.NewProblems(file)},
		drivers:  drivers,
		places:   map[string]config.Pos{},
		origins:  map[string]string{},
		split:    map[string]splitAddress{},
	}
}

// checker checks a config that a reading has decoded, and notes the mistakes in the reading.
type checker struct{ *reading }

// config takes body through every stage and reports what all of them found. A
// stage that has nothing to work on because of an earlier mistake is left out.
func (r *reading) config(body []byte, over []override) (*config.Config, error) {
	c := config.Defaults()
	c.Path, c.Sum, c.Places = r.File, sha256.Sum256(body), r.places
	r.fill(c, body, over)
	if err := r.Err(); err != nil {
		return nil, err
	}
	warnings := config.InOrder(r.Warnings)
	c.Warnings = warnings[:min(len(warnings), config.MaxErrors)]
	return c, nil
}

// fill decodes body and what is over it into c, and checks it. It reports whether body is a mapping; if not, only
// what is over it is in c, and c is not checked.
func (r *reading) fill(c *config.Config, body []byte, over []override) bool {
	root := reflect.ValueOf(c).Elem()
	file := r.Root(body)
	ok := file != nil && file.Kind != kindBroken && r.isMapping(file, "", config.Keys(config.FieldsOf(root)))
	if ok {
		r.places[""] = file.At
		r.object(file, "", root)
	}
	r.override(root, over)
	if ok {
		(&checker{r}).check(c)
	}
	return ok
}

// fail notes a mistake in the value at path, wherever that came from.
func (r *reading) fail(path, format string, args ...any) {
	if origin, ok := r.origins[path]; ok {
		r.AddFrom(origin, path, format, args...)
		return
	}
	r.Add(r.place(path), path, format, args...)
}

// refuse notes a mistake in the value at path if there is one, and none was noted before.
func (r *checker) refuse(mistake bool, path, format string, args ...any) {
	if mistake && !r.Bad(path) {
		r.fail(path, format, args...)
	}
}

// given reports whether the value at path is in the file or came from outside.
func (r *checker) given(path string) bool {
	_, inFile := r.places[path]
	_, outside := r.origins[path]
	return inFile || outside
}

// place is where the value at path stands, or the innermost one around it.
func (r *reading) place(path string) config.Pos {
	for {
		if at, ok := r.places[path]; ok || path == "" {
			return at
		}
		path = config.Parent(path)
	}
}
