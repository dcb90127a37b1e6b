package dynwatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// handled runs Run until the handler has got the event with that op and name, and returns what
// it got, without states of targets. Failing is the error of the handler for that event.
func handled(t *testing.T, options dynwatch.Options, op event.Op, name string, failing error) (got []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	err = dynwatch.Run(ctx, options, []dynwatch.Resource{things()}, func(e event.Event) error {
		if e.Op == event.State {
			return nil // a target is live again, at any time
		}
		got = append(got, strings.TrimSpace(fmt.Sprint(e.Op, " ", e.Name)))
		if e.Op != op || e.Name != name {
			return nil
		}
		cancel()
		return failing
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatalf("the handler never got %s %s, but %v", op, name, got)
	}
	return got, err
}

func TestRun(t *testing.T) {
	api := newFakeAPI(t, "a/one")
	options := dynwatch.Options{Kubernetes: api.config(), Logger: slog.New(slog.DiscardHandler)}
	got, err := handled(t, options, event.Synced, "", nil)
	if diff := cmp.Diff([]string{"begin", "snapshot one", "synced"}, got); diff != "" || err != nil {
		t.Errorf("the error is %v; events (-want +got):\n%s", err, diff)
	}

	refused := errors.New("refused")
	got, err = handled(t, options, event.Snapshot, "one", refused)
	if diff := cmp.Diff([]string{"begin", "snapshot one"}, got); diff != "" || !errors.Is(err, refused) {
		t.Errorf("after a failure the error is %v; events (-want +got):\n%s", err, diff)
	}
}

func TestRunRefuses(t *testing.T) {
	api := newFakeAPI(t)
	for name, test := range map[string]struct {
		options   dynwatch.Options
		resources []dynwatch.Resource
		says      string
	}{
		"no API server":     {dynwatch.Options{}, []dynwatch.Resource{things()}, "Kubernetes"},
		"a log of its own":  {dynwatch.Options{Kubernetes: api.config(), Log: newRecorder()}, []dynwatch.Resource{things()}, "journal.Journal"},
		"a journal, no key": {dynwatch.Options{Kubernetes: api.config(), Log: diskLog(t, "test")}, []dynwatch.Resource{things()}, "RedactionKey"},
		"no resources":      {dynwatch.Options{Kubernetes: api.config()}, nil, "at least one resource"},
		"another cluster":   {dynwatch.Options{Kubernetes: api.config(), Log: diskLog(t, "theirs"), Cluster: "ours", RedactionKey: make([]byte, 32)}, []dynwatch.Resource{things()}, `journal is that of cluster "theirs"`},
		"no resource name":  {dynwatch.Options{Kubernetes: api.config()}, []dynwatch.Resource{{Group: "example.com"}}, "apply resources"},
	} {
		t.Run(name, func(t *testing.T) {
			err := dynwatch.Run(t.Context(), test.options, test.resources, func(event.Event) error { return nil })
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want one about %s", err, test.says)
			}
		})
	}
}

// diskLog is a journal in a directory.
func diskLog(t testing.TB, cluster string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Config{Dir: t.TempDir(), Cluster: cluster, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// TestRunDurably: the second run gets what happened after the last handled event, the one that
// was not handled included, and a deletion while none ran.
func TestRunDurably(t *testing.T) {
	api := newFakeAPI(t, "a/one", "a/two")
	options := dynwatch.Options{
		Cluster: "test", Kubernetes: api.config(), Log: diskLog(t, "test"), RedactionKey: []byte("0123456789abcdef"),
		Logger: slog.New(slog.DiscardHandler),
	}
	if _, err := handled(t, options, event.Synced, "", nil); err != nil {
		t.Fatal(err)
	}
	api.del("a", "two")
	api.put("a", "three", "")
	refused := errors.New("refused")
	got, err := handled(t, options, event.Added, "three", refused)
	if want := []string{"deleted two", "added three"}; !slices.Equal(got, want) || !errors.Is(err, refused) {
		t.Errorf("the second run got %v (%v), want %v", got, err, want)
	}
	if got, err := handled(t, options, event.Added, "three", nil); !slices.Equal(got, []string{"added three"}) || err != nil {
		t.Errorf("the third run got %v (%v)", got, err)
	}
}

// TestResourceErrors: each fault of a wanted set has its place.
func TestResourceErrors(t *testing.T) {
	api := newFakeAPI(t)
	manager, err := dynwatch.New(dynwatch.Options{
		Cluster: "test", Kubernetes: api.config(), Log: newRecorder(), RedactionKey: []byte("0123456789abcdef"),
		Reject: func(context.Context, dynwatch.Rejected) error { return nil },
	})
	must(t, err)
	defer manager.Close()
	var joined interface{ Unwrap() []error }
	if err := manager.Apply([]dynwatch.Resource{{Resource: "pods", Mode: "half"}, things(), things()}); !errors.As(err, &joined) {
		t.Fatalf("the error is %v", err)
	}
	var got []string
	for _, one := range joined.Unwrap() {
		fault, ok := errors.AsType[*dynwatch.ResourceError](one)
		if !ok {
			t.Fatalf("%v is no ResourceError", one)
		}
		got = append(got, fmt.Sprint(fault.Index, " ", fault.Resource))
	}
	if want := []string{"0 core/pods", "2 example.com/things"}; !slices.Equal(got, want) {
		t.Errorf("faults of %v, want %v", got, want)
	}
}
