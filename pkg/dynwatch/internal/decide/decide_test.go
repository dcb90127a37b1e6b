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
	late := decide.Known{Object: decide.Same, RV: 10, Newest: 10, Past: 15}
	other := decide.Known{Object: decide.Other, RV: 10, Newest: 10}
	state := func(rv uint64) decide.Seen { return decide.Seen{Kind: decide.State, RV: rv} }
	gone := func(rv uint64) decide.Seen { return decide.Seen{Kind: decide.Gone, RV: rv} }
	unreadable := func(seen decide.Seen) decide.Seen {
		seen.Unreadable = true
		return seen
	}
	replaced := func(at uint64, then decide.Decision) decide.Decision {
		then.Replaced, then.ReplacedAt = true, at
		return then
	}
	none, added, modified := decide.Decision{}, decide.Decision{Op: event.Added}, decide.Decision{Op: event.Modified}
	deleted := decide.Decision{Op: event.Deleted}
	addedOrEntered := decide.Decision{Op: event.Added, Ask: true, IfExists: event.Entered}
	deletedOrLeft := decide.Decision{Op: event.Deleted, Ask: true, IfExists: event.Left}
	deletedOrNone := decide.Decision{Op: event.Deleted, Ask: true}
	for name, c := range map[string]struct {
		known decide.Known
		seen  decide.Seen
		// want is without a selector, asked with one.
		want, asked decide.Decision
	}{
		"nothing, state": {nothing, state(25), added, addedOrEntered},
		"nothing, state from before the position":     {nothing, state(15), added, addedOrEntered},
		"nothing, deleted":                            {nothing, gone(25), deleted, deletedOrNone},
		"nothing, deleted at the position":            {nothing, gone(20), deleted, deletedOrNone},
		"nothing, deleted before the position":        {nothing, gone(19), none, none},
		"ended, state before the end":                 {ended, state(19), none, none},
		"ended, deleted at the end":                   {ended, gone(20), none, none},
		"ended, newer":                                {ended, state(21), added, addedOrEntered},
		"same, newer":                                 {same, state(11), modified, modified},
		"same, at the known revision":                 {same, state(10), none, none},
		"same, older":                                 {same, state(9), none, none},
		"same, between event and skipped":             {skipped, state(11), none, none},
		"same, at the skipped revision":               {skipped, state(12), none, none},
		"same, newer than skipped":                    {skipped, state(13), modified, modified},
		"same, deleted before the event":              {same, gone(9), none, none},
		"same, deleted before the skipped":            {skipped, gone(11), none, none},
		"same, deleted":                               {same, gone(11), deleted, deletedOrLeft},
		"same, deleted at the revision of the event":  {skipped, gone(10), deleted, deletedOrLeft},
		"same, deleted at the skipped revision":       {skipped, gone(12), deleted, deletedOrLeft},
		"same, its late deletion waits for an answer": {late, gone(15), none, none},
		"other, newer":                                {other, state(15), replaced(14, added), replaced(14, addedOrEntered)},
		"other, deleted":                              {other, gone(15), replaced(14, deleted), replaced(14, deletedOrNone)},
		"other, not newer":                            {other, state(10), none, none},
		"other, deleted, not newer":                   {other, gone(10), none, none},
		"unreadable, nothing":                         {nothing, unreadable(state(25)), none, none},
		"unreadable, nothing, deleted":                {nothing, unreadable(gone(25)), none, none},
		"unreadable, same, newer":                     {same, unreadable(state(11)), none, none},
		"unreadable, same, deleted, late":             {same, unreadable(gone(9)), none, none},
		"unreadable, same, deleted":                   {same, unreadable(gone(11)), deleted, deletedOrLeft},
		"unreadable, other":                           {other, unreadable(state(15)), replaced(14, none), replaced(14, none)},
		"unreadable, other, not newer":                {other, unreadable(state(10)), none, none},
		// The object may be older than what is known.
		"unreadable, other, without a revision":          {other, unreadable(state(0)), none, none},
		"unreadable, other, deleted, without a revision": {other, unreadable(gone(0)), none, none},
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
