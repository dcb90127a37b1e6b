package daemon

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// TestVerifySinkWithOps: the destination holds an old state of web, no state of db, and ghost,
// which does not exist. Ops decides which of these a comparison can find.
func TestVerifySinkWithOps(t *testing.T) {
	for name, tt := range map[string]struct {
		ops           []string
		want          []string
		note, nothing bool
	}{
		"no ops":                {ops: nil, want: []string{"ghost", "web", "db"}},
		"every operation":       {ops: []string{"snapshot", "added", "modified", "deleted", "left", "entered"}, want: []string{"ghost", "web", "db"}},
		"no snapshot":           {ops: []string{"added", "modified", "deleted", "left"}, want: []string{"ghost"}, note: true},
		"no modified":           {ops: []string{"added", "deleted", "left"}, want: []string{"ghost"}, note: true},
		"no left":               {ops: []string{"snapshot", "added", "modified", "deleted"}, nothing: true},
		"neither of both":       {ops: []string{"added", "modified"}, nothing: true},
		"no deleted, all other": {ops: []string{"snapshot", "added", "modified", "left", "entered"}, nothing: true},
	} {
		t.Run(name, func(t *testing.T) {
			match := config.Match{Ops: tt.ops}
			route := deliver.NewRoute([]deliver.Match{{Ops: operations(tt.ops)}}, true)
			s := &clusterJournal{}
			must(t, s.Watch([]dynwatch.Resource{{Resource: "pods"}}))
			v := newSinkCheck(&pipeline{store: s, logger: slog.New(slog.DiscardHandler)}, &delivery{
				config: config.Sink{Name: "bus", Match: []config.Match{match}}, setup: deliver.Setup{Route: route},
			})
			v.expect([]dynwatch.Known{{
				Target: "core/pods", Resource: "pods", ResourceVersion: 100,
				Objects: []dynwatch.KnownObject{{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: 9}, {Namespace: "shop", Name: "db", UID: "u", ResourceVersion: 9}},
			}})
			for _, held := range []string{"ghost", "web"} {
				if err := v.take(event.Event{Resource: "pods", Namespace: "shop", Name: held, UID: "u", ResourceVersion: 8}); err != nil {
					t.Fatal(err)
				}
			}
			verdict := v.finish()
			for i, d := range verdict.Examples {
				if i >= len(tt.want) || !strings.Contains(d.Object, tt.want[i]) {
					t.Errorf("difference %d is %s: %s, want of %v", i, d.Object, d.Problem, tt.want)
				}
			}
			if verdict.Divergences != len(tt.want) {
				t.Errorf("%d differences, want %v", verdict.Divergences, tt.want)
			}
			if (verdict.Error != "") != tt.nothing || (verdict.Note != "") != tt.note {
				t.Errorf("error %q, note %q, want nothing compared: %t, a note: %t", verdict.Error, verdict.Note, tt.nothing, tt.note)
			}
		})
	}
}
