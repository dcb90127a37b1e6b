// Package selection knows which namespaces a target covers: by name, and by the labels of the
// Namespaces, which one watch follows for all targets. It says which namespaces begin and no longer
// match, and where a target begins with one. It emits nothing: package target does
// (namespaces.go has the whole story).
package selection

// maxFiltered bounds the namespaces of which the filtered frames are noted.
const maxFiltered = 1000

// Coverage are the namespaces that a target covers by their labels, as far as its
// own stream has come. It belongs to the loop of the target; only Filter may be used concurrently.
// Its fields are one state: nearly every step changes several of them.
type Coverage struct {
	rule Rule
	// Filter has what is covered, nil if the rule filters nothing.
	Filter     *Filter
	Namespaces *Namespaces
	// Changed has a value when there may be something new, and is nil while the
	// Namespaces are not followed.
	Changed chan struct{}
	// Due: the Namespaces may have changed since this was brought in line with them.
	Due bool
	// Known: the target has begun with the namespaces that match.
	Known bool
	// Apart: the Namespaces are in another store, so that their revisions and those of
	// frames do not compare.
	Apart bool
	// labelled are the namespaces that are covered by their labels.
	labelled *labelled
	// at is the revision of the Namespaces with which the coverage was in line last. agreed is the revision
	// of the Namespaces with which the log was in line last.
	at, agreed uint64
	// outdated: the log may be in line with other namespaces than those that match. That ends when the log
	// has been compared with a list of all objects. flipping: namespaces are being matched or unmatched, or
	// an attempt to do so has failed.
	outdated, flipping bool
	// listed are the revisions of the lists that namespaces began with. Frames up to
	// there bring nothing new.
	listed map[string]uint64
	// filtered has the revision of the newest frame of each namespace that did not match when the frame came.
	// unknown is a revision up to which nothing is known of such frames.
	filtered map[string]uint64
	unknown  uint64
	// ahead is a revision: when the target starts, the log has no event after it. It may be before or after
	// the position.
	ahead uint64
}

// Leaving is a namespace that no longer matches. Its frames count until the watch has passed revision
// Until, which is 0 if it is not known yet. Cause is the revision of the Namespace. Broken is a revision
// since which only some of its objects may have been announced, and 0 if there is none.
type Leaving struct{ Until, Cause, Broken uint64 }

// NewCoverage makes the coverage of a target that has not begun.
func NewCoverage(rule Rule, n *Namespaces) Coverage {
	c := Coverage{rule: rule, Filter: NewFilter(rule), Namespaces: n, labelled: new(labelled)}
	if rule.Selector != "" {
		c.labelled = c.Filter.labelled
	}
	return c
}

// Leave ends the following of the Namespaces.
func (c *Coverage) Leave() {
	if c.Changed != nil {
		c.Namespaces.leave(c.rule, c.labelled)
	}
}

// Trouble says why the Namespaces are not followed at the moment, nil if they are or
// need not be.
func (c *Coverage) Trouble() error {
	if c.Changed == nil {
		return nil
	}
	return c.Namespaces.trouble()
}

// change changes what the target covers, which others may read.
func (c *Coverage) change(do func()) {
	c.labelled.mu.Lock()
	defer c.labelled.mu.Unlock()
	do()
}
