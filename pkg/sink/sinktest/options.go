package sinktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Must ends a test that an error leaves nothing to check in.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Options returns the options of a new sink, changed. They must be valid then.
func Options[C any](t *testing.T, driver sink.Driver, changes ...func(c *C)) *C {
	t.Helper()
	options := driver.New()
	c, ok := any(options).(*C)
	if !ok {
		t.Fatalf("the options of the driver are %T", options)
	}
	for _, change := range changes {
		if change != nil {
			change(c)
		}
	}
	if problems := options.Validate(); len(problems) > 0 {
		t.Fatalf("Validate: %v", problems)
	}
	return c
}

// Open opens a sink, with changes to [Env], and closes it when the test ends.
func Open(t *testing.T, c sink.Config, changes ...func(env *sink.Env)) sink.Sink {
	t.Helper()
	env := Env(t)
	for _, change := range changes {
		change(&env)
	}
	s, err := c.Open(t.Context(), env)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// MustWrite writes events that a sink must take at once.
func MustWrite(t *testing.T, s sink.Sink, events []event.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if n, err := s.Write(ctx, events); n != len(events) || err != nil {
		t.Fatalf("Write took %d of %d events: %v", n, len(events), err)
	}
}

// Deliver writes events as informd does: what is left after a failure is written again until nothing is. It
// returns how often it had to.
func Deliver(t *testing.T, s sink.Sink, events []event.Event) (retries int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for len(events) > 0 {
		n, err := s.Write(ctx, events)
		if events = events[n:]; err == nil {
			continue
		}
		if sink.IsPermanent(err) || ctx.Err() != nil {
			t.Fatalf("%d events are left: %v", len(events), err)
		}
		t.Logf("Write took %d events: %v", n, err)
		retries++
		<-pause.C
	}
	return retries
}

// Problems lists the keys of the problems that options have, sorted. Neither the messages nor the options, when they
// are printed, may show secret.
func Problems(t *testing.T, c sink.Config, secret string) (keys []string) {
	t.Helper()
	for _, p := range c.Validate() {
		keys = append(keys, p.Key)
		if p.Message == "" || strings.Contains(p.Message, secret) {
			t.Errorf("the message about %s says nothing, or shows a secret: %q", p.Key, p.Message)
		}
	}
	if shown := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(shown, secret) {
		t.Errorf("the options show a secret: %s", shown)
	}
	slices.Sort(keys)
	return keys
}

// Validate decodes options from each YAML text over the driver's defaults, and holds them to the keys of the problems that
// they have, sorted. No secret shows: see [Problems].
func Validate(t *testing.T, driver sink.Driver, secret string, keysOf map[string][2]string) {
	t.Helper()
	for name, one := range keysOf {
		t.Run(name, func(t *testing.T) {
			c := driver.New()
			if err := yaml.UnmarshalWithOptions([]byte(one[0]), c, yaml.Strict()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(one[1]), Problems(t, c, secret), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("problems about (-want +got):\n%s", diff)
			}
		})
	}
}

// NamesFiles holds Open to an error that names the key and the file if a file of the options is missing or blank.
func NamesFiles[C any](t *testing.T, options func(change func(c *C)) sink.Config, keys map[string]func(c *C, file string)) {
	t.Helper()
	for key, set := range keys {
		missing := filepath.Join(t.TempDir(), "missing")
		blank := filepath.Join(t.TempDir(), "blank")
		if err := os.WriteFile(blank, []byte("\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{missing, blank} {
			t.Run(key+" "+filepath.Base(file), func(t *testing.T) {
				s, err := options(func(c *C) { set(c, file) }).Open(t.Context(), Env(t))
				if err == nil {
					_ = s.Close(t.Context())
					t.Fatal("Open succeeded")
				}
				if text := err.Error(); sink.IsPermanent(err) || !strings.Contains(text, key) || !strings.Contains(text, file) {
					t.Errorf("Open: %v, want an error that names %s and the file", err, key)
				}
			})
		}
	}
}
