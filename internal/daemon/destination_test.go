package daemon

import (
	"errors"
	"fmt"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// TestRefillRepeatsWhatFailed: a resource that cannot be announced at the moment, such as
// one that is not served, has no other resource announced again and again. A wildcard without
// a resource holds up none.
func TestRefillRepeatsWhatFailed(t *testing.T) {
	d := new(destination)
	errWaiting := fmt.Errorf("%w: example.com/things: the target is waiting", errTargets)
	fails := true
	var asked []string
	attempt := func() error {
		return d.refillAll([]string{"*.example.com/*", "core/configmaps", "example.com/things", "core/pods"}, func(resource string) error {
			asked = append(asked, resource)
			if resource == "*.example.com/*" {
				return fmt.Errorf("%w: %s", dynwatch.ErrUnknownResource, resource)
			}
			if fails && resource == "example.com/things" {
				return errWaiting
			}
			return nil
		})
	}
	for range 2 {
		if err := attempt(); !errors.Is(err, errWaiting) {
			t.Errorf("error %v, want %v", err, errWaiting)
		}
	}
	fails = false
	if err := attempt(); err != nil {
		t.Error(err)
	}
	want := "[*.example.com/* core/configmaps example.com/things core/pods example.com/things example.com/things]"
	if got := fmt.Sprint(asked); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// TestDeclareAgain: a gap event that the sink did not get is inserted again, and one that it
// got is not. Another destination gets its own.
func TestDeclareAgain(t *testing.T) {
	d := new(destination)
	errEnded := errors.New("the sink has ended")
	var got []string
	declare := func(is string, fails error) error {
		return d.declareOnce(is, func() error {
			if fails == nil {
				got = append(got, is)
			}
			return fails
		})
	}
	if err := declare("first", errEnded); !errors.Is(err, errEnded) {
		t.Errorf("error %v, want %v", err, errEnded)
	}
	for _, is := range []string{"first", "first", "second", "second"} {
		if err := declare(is, nil); err != nil {
			t.Error(err)
		}
	}
	if want := "[first second]"; fmt.Sprint(got) != want {
		t.Errorf("the sink got %v, want %s", got, want)
	}
}
