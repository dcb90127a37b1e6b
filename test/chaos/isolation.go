package chaos

import (
	"fmt"
	"slices"
	"time"
)

const (
	// isolationFactor and isolationSlack are what a fault of one sink may cost
	// another: the machine is shared, after all.
	isolationFactor = 2
	isolationSlack  = 500 * time.Millisecond
	// enough is how many delays make a percentile worth anything.
	enough = 500
)

// isolation is I10: while nothing but the bus or the webhook is broken, the file
// follows as fast as ever.
func isolation(r *Rig, strikes []Strike) []Violation {
	var base, while []time.Duration
	for _, d := range r.file.tracker.Delays() {
		switch disturbed(strikes, d.At.Add(-d.For), d.At) {
		case nothing:
			base = append(base, d.For)
		case otherSinks:
			while = append(while, d.For)
		case more:
		}
	}
	if len(base) < enough || len(while) < enough {
		return nil
	}
	p99, limit := percentile(while, 99), isolationFactor*percentile(base, 99)+isolationSlack
	if p99 <= limit {
		return nil
	}
	return []Violation{{Invariant: "I10", Sink: "file", Text: fmt.Sprintf("with faults of other sinks the 99th percentile of the delay is %s, the limit is %s", p99, limit)}}
}

type disturbance int

const (
	nothing disturbance = iota
	otherSinks
	more
)

// disturbed says what was broken, or still being made up for, in a time.
func disturbed(strikes []Strike, from, to time.Time) disturbance {
	worst := nothing
	for _, s := range strikes {
		end := s.Caught
		if end.IsZero() {
			end = to
		}
		if s.Began.After(to) || end.Before(from) {
			continue
		}
		if len(s.touches) == 1 && (s.touches[0] == "bus" || s.touches[0] == "hook") {
			worst = max(worst, otherSinks)
		} else {
			worst = more
		}
	}
	return worst
}

// percentile returns the p-th percentile; 0 of nothing.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
