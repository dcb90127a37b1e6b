package target

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// describe names a state with what it has of a loss.
func describe(s state) string {
	switch s := s.(type) {
	case preparing:
		if s.then == nil {
			return "preparing"
		}
		return "preparing, " + describe(s.then)
	case *listing:
		text := fmt.Sprintf("listing from %d", s.from)
		if s.restored {
			text += ", restored"
		}
		if s.broken {
			text += ", broken"
		}
		return text
	case following:
		return "following"
	case recovering:
		return "recovering " + s.lost.reason
	case stopped:
		return "stopped, " + describe(s.in)
	}
	return "none"
}

// TestAfter: where each state goes on after each outcome of a step.
func TestAfter(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	forbidden := apierrors.NewForbidden(resource, "", errors.New("no"))
	outcomes := []struct {
		name string
		err  error
	}{
		{"done", nil},
		{"end", errEnd},
		{"log", fmt.Errorf("%w: full", emit.ErrLog)},
		{"404", apierrors.NewGenericServerResponse(http.StatusNotFound, "list", resource, "", "", 0, true)},
		{"not served", fmt.Errorf("discovery: %w", kube.ErrNotServed)},
		{"removed", removed{fmt.Errorf("discovery: %w", kube.ErrNotServed)}},
		{"namespace removed", removed{forbidden}},
		{"forbidden", forbidden},
		{"overload", apierrors.NewTooManyRequestsError("later")},
		{"list expired", apierrors.NewResourceExpired("too old")},
		{"wrong list", listwatch.ErrWrongList},
		{"rollback", lossError{of: &loss{reason: reasonRollback}}},
		{"behind", lossError{of: &loss{reason: reasonBehind}}},
	}
	// What is not named stays in its state.
	stay := func(as string, others map[string]string) map[string]string {
		want := map[string]string{"end": "stopped, " + as, "log": "stopped, " + as}
		for _, o := range outcomes {
			if want[o.name] == "" {
				want[o.name] = as
			}
			if other, ok := others[o.name]; ok {
				want[o.name] = other
			}
		}
		return want
	}
	for _, c := range []struct {
		from func() state
		want map[string]string
	}{
		{func() state { return preparing{} }, stay("preparing", map[string]string{
			"removed": "preparing, listing from 0", "namespace removed": "preparing, listing from 0",
			"rollback": "preparing, recovering rollback", "behind": "preparing, recovering behind",
		})},
		{func() state { return preparing{then: following{}} }, stay("preparing, following", map[string]string{
			"removed": "preparing, listing from 0", "namespace removed": "preparing, listing from 0",
			"rollback": "preparing, recovering rollback", "behind": "preparing, recovering behind",
		})},
		{func() state { return &listing{from: 7} }, stay("listing from 7", map[string]string{
			"404": "preparing, listing from 7", "not served": "preparing, listing from 7",
			"removed": "preparing, listing from 0", "namespace removed": "listing from 0",
			"rollback": "listing from 7, restored", "behind": "listing from 7, restored",
		})},
		{func() state { return &listing{from: 7, pass: new(Pass)} }, stay("listing from 7", map[string]string{
			"404": "preparing, listing from 7", "not served": "preparing, listing from 7",
			"removed": "preparing, listing from 0", "namespace removed": "listing from 0",
			"rollback": "listing from 7, restored, broken", "behind": "listing from 7, restored, broken",
		})},
		{func() state { return following{} }, stay("following", map[string]string{
			"404": "preparing, following", "not served": "preparing, following",
			"removed": "preparing, listing from 0", "namespace removed": "listing from 0",
			"rollback": "recovering rollback", "behind": "recovering behind",
		})},
		{func() state { return recovering{lost: &loss{reason: reasonExpired}} }, stay("recovering expired", map[string]string{
			"404": "preparing, recovering expired", "not served": "preparing, recovering expired",
			"removed": "preparing, listing from 0", "namespace removed": "listing from 0",
			"rollback": "recovering rollback", "behind": "recovering behind",
		})},
	} {
		got := make(map[string]string)
		for _, o := range outcomes {
			got[o.name] = describe(after(c.from(), o.err))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("from %s (-want +got):\n%s", describe(c.from()), diff)
		}
	}
}

// TestRefused: the first 410 is followed by a watch over another connection, the next ones by a
// recovery, and from the third on after a pause.
func TestRefused(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old resource version: 5 (9)")
	of := &Target{Options: Options{Logger: slog.New(slog.DiscardHandler)}, position: position{rv: 5}}
	for i, want := range []struct {
		state  string
		pauses bool
	}{{"following", false}, {"recovering expired", false}, {"recovering expired", true}} {
		next, err := of.refused(gone)
		if got := describe(next); got != want.state || (err != nil) != want.pauses {
			t.Errorf("410 number %d: %s (%v), want %s, a pause: %v", i+1, got, err, want.state, want.pauses)
		}
		if r, ok := next.(recovering); ok && (r.lost.from != 5 || r.lost.oldest != 9) {
			t.Errorf("410 number %d: lost after %d, the oldest revision is %d", i+1, r.lost.from, r.lost.oldest)
		}
	}
}
