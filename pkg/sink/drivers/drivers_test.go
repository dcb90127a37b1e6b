package drivers_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/drivers"
)

func TestAllTypes(t *testing.T) {
	var types, remote []string
	for _, d := range drivers.All() {
		types = append(types, fmt.Sprint(d.Type, " ", d.Lanes))
		if d.Remote {
			remote = append(remote, d.Type)
		}
	}
	if diff := cmp.Diff([]string{"kafka", "nats", "otlp", "postgres", "webhook"}, remote); diff != "" {
		t.Errorf("types whose sinks send to where other clusters may send, too (-want +got):\n%s", diff)
	}
	// With several lanes, only events of one object keep their order.
	if diff := cmp.Diff([]string{"exec 1", "file 1", "kafka 1", "nats 1", "otlp 4", "postgres 1", "stdout 1", "webhook 8"}, types); diff != "" {
		t.Errorf("types and their lanes (-want +got):\n%s", diff)
	}
}

// TestOptions: options are fresh for every sink, and their keys are camelCase
// and none of those that every sink has.
func TestOptions(t *testing.T) {
	camelCase := regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	for _, d := range drivers.All() {
		t.Run(d.Type, func(t *testing.T) {
			first, second := d.New(), d.New()
			value := reflect.ValueOf(first)
			if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
				t.Fatalf("New returns a %T, want a pointer to a struct", first)
			}
			if _, ok := first.(sink.Renderer); !ok {
				t.Error("the options are no sink.Renderer: informd try cannot show what the sink sends")
			}
			if value.Pointer() == reflect.ValueOf(second).Pointer() {
				t.Error("two sinks share their options")
			}
			seen := map[string]bool{}
			for _, field := range reflect.VisibleFields(value.Elem().Type()) {
				key, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
				if option == "inline" {
					continue // its fields are among the visible ones
				}
				if !camelCase.MatchString(key) || seen[key] || slices.Contains([]string{"name", "type", "match", "start"}, key) {
					t.Errorf("field %s has the key %q", field.Name, key)
				}
				seen[key] = true
			}
			for _, p := range first.Validate() { // of defaults: what is missing, at most
				if p.Message == "" || p.Key != "" && !seen[strings.Split(p.Key, ".")[0]] {
					t.Errorf("problem %+v is about no key of this sink, or says nothing", p)
				}
			}
		})
	}
}
