package decide_test

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/event"
)

// The rows of the table in the package comment.
func TestFrames(t *testing.T) {
	const position = 20
	nothing := decide.Known{}
	ended := decide.Known{Past: 20}
	same := decide.Known{Object: decide.Same, RV: 10, Newest: 10}
	skipped := decide.Known{Object: decide.Same, RV: 10, Newest: 12} // by a change filter
	other := decide.Known{Object: decide.Other, RV: 10, Newest: 10}
	state, gone := decide.State, decide.Gone
	replaced := func(at uint64, then decide.Decision) decide.Decision {
		then.Replaced, then.ReplacedAt = true, at
		return then
	}
	added, modified, deleted := decide.Decision{Op: event.Added}, decide.Decision{Op: event.Modified}, decide.Decision{Op: event.Deleted}
	for name, c := range map[string]struct {
		known decide.Known
		seen  decide.Seen
		// want is without a selector, asked with one.
		want, asked decide.Decision
	}{
		"nothing, state": {
			nothing,
			decide.Seen{Kind: state, RV: 25},
			added,
			decide.Decision{Op: event.Added, Ask: true, IfExists: event.Entered},
		},
		"nothing, state from before the position": {
			nothing,
			decide.Seen{Kind: state, RV: 15},
			added,
			decide.Decision{Op: event.Added, Ask: true, IfExists: event.Entered},
		},
		"nothing, deleted": {
			nothing,
			decide.Seen{Kind: gone, RV: 25},
			deleted,
			decide.Decision{Op: event.Deleted, Ask: true},
		},
		"nothing, deleted at the position": {
			nothing,
			decide.Seen{Kind: gone, RV: 20},
			deleted,
			decide.Decision{Op: event.Deleted, Ask: true},
		},
		"nothing, deleted before the position": {known: nothing, seen: decide.Seen{Kind: gone, RV: 19}},
		"ended, state before the end":          {known: ended, seen: decide.Seen{Kind: state, RV: 19}},
		"ended, deleted at the end":            {known: ended, seen: decide.Seen{Kind: gone, RV: 20}},
		"ended, newer": {
			ended,
			decide.Seen{Kind: state, RV: 21},
			added,
			decide.Decision{Op: event.Added, Ask: true, IfExists: event.Entered},
		},
		"same, newer":                      {same, decide.Seen{Kind: state, RV: 11}, modified, modified},
		"same, at the known revision":      {known: same, seen: decide.Seen{Kind: state, RV: 10}},
		"same, older":                      {known: same, seen: decide.Seen{Kind: state, RV: 9}},
		"same, between event and skipped":  {known: skipped, seen: decide.Seen{Kind: state, RV: 11}},
		"same, at the skipped revision":    {known: skipped, seen: decide.Seen{Kind: state, RV: 12}},
		"same, newer than skipped":         {skipped, decide.Seen{Kind: state, RV: 13}, modified, modified},
		"same, deleted before the event":   {known: same, seen: decide.Seen{Kind: gone, RV: 9}},
		"same, deleted before the skipped": {known: skipped, seen: decide.Seen{Kind: gone, RV: 11}},
		"same, deleted": {
			same,
			decide.Seen{Kind: gone, RV: 11},
			deleted,
			decide.Decision{Op: event.Deleted, Ask: true, IfExists: event.Left},
		},
		"same, deleted at the revision of the event": {
			skipped,
			decide.Seen{Kind: gone, RV: 10},
			deleted,
			decide.Decision{Op: event.Deleted, Ask: true, IfExists: event.Left},
		},
		"same, deleted at the skipped revision": {
			skipped,
			decide.Seen{Kind: gone, RV: 12},
			deleted,
			decide.Decision{Op: event.Deleted, Ask: true, IfExists: event.Left},
		},
		"same, its late deletion waits for an answer": {
			known: decide.Known{Object: decide.Same, RV: 10, Newest: 10, Past: 15}, seen: decide.Seen{Kind: gone, RV: 15},
		},
		"other, newer": {
			other,
			decide.Seen{Kind: state, RV: 15},
			replaced(14, added),
			replaced(14, decide.Decision{Op: event.Added, Ask: true, IfExists: event.Entered}),
		},
		"other, deleted": {
			other,
			decide.Seen{Kind: gone, RV: 15},
			replaced(14, deleted),
			replaced(14, decide.Decision{Op: event.Deleted, Ask: true}),
		},
		"other, not newer":                {known: other, seen: decide.Seen{Kind: state, RV: 10}},
		"other, deleted, not newer":       {known: other, seen: decide.Seen{Kind: gone, RV: 10}},
		"unreadable, nothing":             {known: nothing, seen: decide.Seen{Kind: state, RV: 25, Unreadable: true}},
		"unreadable, nothing, deleted":    {known: nothing, seen: decide.Seen{Kind: gone, RV: 25, Unreadable: true}},
		"unreadable, same, newer":         {known: same, seen: decide.Seen{Kind: state, RV: 11, Unreadable: true}},
		"unreadable, same, deleted, late": {known: same, seen: decide.Seen{Kind: gone, RV: 9, Unreadable: true}},
		"unreadable, same, deleted": {
			same,
			decide.Seen{Kind: gone, RV: 11, Unreadable: true},
			deleted,
			decide.Decision{Op: event.Deleted, Ask: true, IfExists: event.Left},
		},
		"unreadable, other": {
			other, decide.Seen{Kind: state, RV: 15, Unreadable: true}, replaced(14, decide.Decision{}), replaced(14, decide.Decision{}),
		},
		"unreadable, other, not newer": {known: other, seen: decide.Seen{Kind: state, RV: 10, Unreadable: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide.Decide(c.known, c.seen, decide.Rules{Position: position, Arrival: event.Added}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got := decide.Decide(c.known, c.seen, decide.Rules{Position: position, Selects: true, Arrival: event.Added}); got != c.asked {
				t.Errorf("under a selector: got %+v, want %+v", got, c.asked)
			}
		})
	}
}

func TestLists(t *testing.T) {
	listed := func(rv uint64) decide.Seen { return decide.Seen{Kind: decide.Listed, RV: rv} }
	unreadable := func(rv uint64) decide.Seen { return decide.Seen{Kind: decide.Listed, RV: rv, Unreadable: true} }
	first := decide.Rules{Arrival: event.Snapshot}
	later := decide.Rules{Arrival: event.Added}
	selects := decide.Rules{Arrival: event.Added, Selects: true}
	edited := decide.Rules{Selects: true, Edited: true}
	repeat := decide.Rules{Arrival: event.Snapshot, Repeat: true}
	same := decide.Known{Object: decide.Same, RV: 10, Newest: 12}
	other := decide.Known{Object: decide.Other, RV: 10, Newest: 10}
	restored := func(k decide.Known) decide.Known {
		k.Restored = true
		return k
	}
	for name, c := range map[string]struct {
		known decide.Known
		seen  decide.Seen
		rules decide.Rules
		want  decide.Decision
	}{
		"unknown, first list":               {decide.Known{}, listed(5), first, decide.Decision{Op: event.Snapshot}},
		"unknown, later":                    {decide.Known{}, listed(5), later, decide.Decision{Op: event.Added}},
		"unknown, later, selector":          {decide.Known{}, listed(5), selects, decide.Decision{Op: event.Added, Ask: true, IfExists: event.Entered}},
		"past":                              {decide.Known{Past: 5}, listed(5), later, decide.Decision{}},
		"newer than past":                   {decide.Known{Past: 5}, listed(6), later, decide.Decision{Op: event.Added}},
		"left":                              {decide.Known{Left: true}, listed(5), selects, decide.Decision{Op: event.Entered}},
		"left, as it was before":            {decide.Known{Left: true, Past: 7}, listed(5), later, decide.Decision{Op: event.Entered}},
		"same, newer":                       {same, listed(13), later, decide.Decision{Op: event.Modified}},
		"same, skipped":                     {same, listed(12), later, decide.Decision{}},
		"same, older":                       {same, listed(9), later, decide.Decision{}},
		"same, to be repeated":              {same, listed(12), repeat, decide.Decision{Op: event.Snapshot}},
		"same, older, to be repeated":       {same, listed(11), repeat, decide.Decision{}},
		"same, restored, same revision":     {restored(same), listed(10), later, decide.Decision{Op: event.Modified, Compare: true}},
		"same, restored, older":             {restored(same), listed(9), later, decide.Decision{Op: event.Modified}},
		"other, newer":                      {other, listed(15), first, decide.Decision{Replaced: true, ReplacedAt: 14, Op: event.Snapshot}},
		"other, not newer":                  {other, listed(10), later, decide.Decision{}},
		"other, restored, older":            {restored(other), listed(7), later, decide.Decision{Replaced: true, ReplacedAt: 6, Op: event.Added}},
		"same, absent":                      {same, decide.Seen{Kind: decide.Absent, RV: 10}, later, decide.Decision{Op: event.Deleted}},
		"same, absent, selector":            {same, decide.Seen{Kind: decide.Absent, RV: 12}, selects, decide.Decision{Op: event.Deleted, Ask: true, IfExists: event.Left}},
		"same, absent, edited selector":     {same, decide.Seen{Kind: decide.Absent, RV: 12}, edited, decide.Decision{Op: event.Deleted, Ask: true}},
		"same, absent from an older list":   {same, decide.Seen{Kind: decide.Absent, RV: 9}, later, decide.Decision{}},
		"same, restored, absent":            {restored(same), decide.Seen{Kind: decide.Absent, RV: 9}, later, decide.Decision{Op: event.Deleted}},
		"unknown, absent":                   {decide.Known{}, decide.Seen{Kind: decide.Absent, RV: 9}, later, decide.Decision{}},
		"unreadable, unknown":               {decide.Known{}, unreadable(5), first, decide.Decision{}},
		"unreadable, left":                  {decide.Known{Left: true}, unreadable(5), later, decide.Decision{}},
		"unreadable, same":                  {same, unreadable(13), repeat, decide.Decision{}},
		"unreadable, other":                 {other, unreadable(15), later, decide.Decision{Replaced: true, ReplacedAt: 14}},
		"unreadable, other, without an age": {other, unreadable(0), later, decide.Decision{Replaced: true, ReplacedAt: 11}},
		"unreadable, other, not newer":      {other, unreadable(10), later, decide.Decision{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide.Decide(c.known, c.seen, c.rules); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestContradictions(t *testing.T) {
	same := decide.Known{Object: decide.Same, RV: 10, Newest: 12}
	other := decide.Known{Object: decide.Other, RV: 10, Newest: 12}
	for name, c := range map[string]struct {
		known  decide.Known
		rv, at uint64
		want   bool
	}{
		"unknown":                                   {decide.Known{}, 5, 20, false},
		"same, older":                               {same, 11, 12, true},
		"same, in an older list":                    {same, 11, 11, false},
		"same, newest":                              {same, 12, 20, false},
		"same, without a revision":                  {same, 0, 20, false},
		"another, not newer":                        {other, 10, 12, true},
		"another, newer than the last event":        {other, 11, 12, false},
		"another, not newer, in a list from before": {other, 10, 11, false},
	} {
		if got := c.known.Contradicts(c.rv, c.at); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	k := decide.Known{Object: decide.Other, RV: 10, Newest: 10}
	var d decide.Decision
	if n := testing.AllocsPerRun(100, func() {
		d = decide.Decide(k, decide.Seen{Kind: decide.State, RV: 11}, decide.Rules{Position: 10, Arrival: event.Added})
	}); n != 0 || !d.Replaced {
		t.Errorf("%v allocations, decision %+v", n, d)
	}
}

// TestFrameWithoutARevision: a frame of another object whose revision is unreadable may be older than what is known.
func TestFrameWithoutARevision(t *testing.T) {
	other := decide.Known{Object: decide.Other, RV: 10, Newest: 10}
	for _, kind := range []decide.Kind{decide.State, decide.Gone} {
		d := decide.Decide(other, decide.Seen{Kind: kind, Unreadable: true}, decide.Rules{Position: 10, Arrival: event.Added})
		if d.Replaced {
			t.Errorf("kind %d: %+v", kind, d)
		}
	}
}
