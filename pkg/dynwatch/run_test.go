package dynwatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

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
	must(t, err)
	same(t, []string{"begin", "snapshot one", "synced"}, got)

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

// TestResourceErrors: each fault of a wanted set has its place, and says what is wrong.
func TestResourceErrors(t *testing.T) {
	changed := func(items ...string) dynwatch.EmitWhen { return dynwatch.EmitWhen{Changed: items} }
	r := start(t, newFakeAPI(t))
	for name, c := range map[string]struct {
		resources []dynwatch.Resource
		places    []string
		want      []string
	}{
		"two faults": {
			[]dynwatch.Resource{{Resource: "pods", Mode: "half"}, things(), things()},
			[]string{"0 core/pods", "2 example.com/things"},
			[]string{"listed twice"},
		},
		"a wildcard twice": {[]dynwatch.Resource{everything(), everything("x")}, []string{"1 */*"}, []string{"listed twice"}},
		"rules": {
			[]dynwatch.Resource{
				{Resource: "pods", Keep: []string{"spec..x"}, Redact: []string{"/(/"}},
				{Resource: "services", Mode: dynwatch.Metadata, Omit: []string{"spec", "metadata.uid"}},
			},
			[]string{"0 core/pods", "1 core/services"},
			[]string{
				`resource 0 (core/pods): keep "spec..x": at character 6`, `redact "/(/": not a regular expression`,
				`resource 1 (core/services): omit "spec": the path matches nothing`,
				`omit "metadata.uid": the path identifies the object`,
			},
		},
		"filters": {
			[]dynwatch.Resource{
				{Resource: "pods", EmitWhen: changed("spec", "status..x", "metadata.*")},
				// Metadata has a generation.
				{Resource: "services", Mode: dynwatch.Metadata, EmitWhen: changed("spec", "metadata", "status")},
			},
			[]string{"0 core/pods", "1 core/services"},
			[]string{
				`resource 0 (core/pods): changed "status..x": at character 8`,
				`changed "metadata.*": the path matches metadata.resourceVersion`,
				`resource 1 (core/services): changed "status": the path matches nothing`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := r.manager.Check(c.resources)
			var joined interface{ Unwrap() []error }
			if !errors.As(err, &joined) {
				t.Fatalf("the error is %v", err)
			}
			var places []string
			for _, one := range joined.Unwrap() {
				if fault, ok := errors.AsType[*dynwatch.ResourceError](one); ok {
					places = append(places, fmt.Sprint(fault.Index, " ", fault.Resource))
				}
			}
			same(t, c.places, slices.Compact(places))
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v\nhas no %s", err, want)
				}
			}
		})
	}
}

// TestResourcesThatContradictThemselves: patterns need a wildcard and have no version, and rules that change an object
// contradict Exact.
func TestResourcesThatContradictThemselves(t *testing.T) {
	r := start(t, newFakeAPI(t))
	spec := []string{"spec"}
	for name, c := range map[string]struct {
		resource dynwatch.Resource // pods, if it has no name
		want     string            // empty: none
	}{
		"a version of all groups":     {dynwatch.Resource{Group: "*", Resource: "*", Version: "v1"}, "a wildcard has no version"},
		"excluded from one":           {dynwatch.Resource{ExcludeResources: []string{"x"}}, "need a wildcard"},
		"pattern of a group":          {dynwatch.Resource{Group: "[", Resource: "*"}, "syntax error in pattern"},
		"pattern of what is excluded": {everything("[]x"), `pattern "[]x": syntax erro`},
		"too many snapshots":          {dynwatch.Resource{ResnapshotEvery: 59 * time.Second}, "at least 1m"},
		"exact alone":                 {dynwatch.Resource{Exact: true}, ""},
		"exact and keep":              {dynwatch.Resource{Exact: true, Keep: spec}, "exact"},
		"exact and omit":              {dynwatch.Resource{Exact: true, Omit: spec}, "exact"},
		"exact and redact":            {dynwatch.Resource{Exact: true, Redact: spec}, "exact"},
		"exact and changed":           {dynwatch.Resource{Exact: true, EmitWhen: dynwatch.EmitWhen{Changed: spec}}, "exact"},
		"exact and noop":              {dynwatch.Resource{Exact: true, EmitWhen: dynwatch.EmitWhen{SuppressNoop: true}}, "exact"},
		"exact and unchanged":         {dynwatch.Resource{Exact: true, SinkFilters: spec}, "exact"},
	} {
		if c.resource.Resource == "" {
			c.resource.Resource = "pods"
		}
		err := r.manager.Check([]dynwatch.Resource{c.resource})
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
}
