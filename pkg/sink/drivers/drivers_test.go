package drivers_test

import (
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
		types = append(types, d.Type)
		if d.Remote {
			remote = append(remote, d.Type)
		}
		if d.Lanes < 1 {
			t.Errorf("%s has %d lanes, want at least 1", d.Type, d.Lanes)
		}
	}
	if diff := cmp.Diff([]string{"kafka", "nats", "otlp", "postgres", "webhook"}, remote); diff != "" {
		t.Errorf("types whose sinks send to where other clusters may send, too (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"exec", "file", "kafka", "nats", "otlp", "postgres", "stdout", "webhook"}, types); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
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
