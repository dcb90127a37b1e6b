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

// tenantLimit is how long an event of another namespace may take while a tenant is hostile.
const tenantLimit = 30 * time.Second

// neighbours is I19: a tenant holds no event of other namespaces back. Of the time that an
// event took, only that counts in which nothing but the tenant disturbed informd.
func neighbours(r *Rig, strikes []Strike) []Violation {
	var all []Violation
	alone := aloneTimes(strikes)
	for _, c := range r.consumers() {
		var worst time.Duration
		for _, d := range c.tracker.Delays() {
			if d.Tenant || d.For <= max(worst, tenantLimit) {
				continue
			}
			var sum time.Duration
			for _, a := range alone {
				sum += max(0, earlier(a.to, d.At).Sub(later(a.from, d.At.Add(-d.For))))
			}
			worst = max(worst, sum)
		}
		if worst > tenantLimit {
			all = append(all, Violation{Invariant: "I19", Sink: c.name, Text: fmt.Sprintf("an event of another namespace waited %s while nothing but a tenant was hostile, the limit is %s", worst, tenantLimit)})
		}
	}
	return all
}

// span is a time.
type span struct{ from, to time.Time }

// aloneTimes are the times in which the tenant disturbed informd, and nothing else.
func aloneTimes(strikes []Strike) []span {
	now := time.Now()
	var bounds []time.Time
	for _, s := range strikes {
		bounds = append(bounds, s.Began, s.until(now))
	}
	slices.SortFunc(bounds, time.Time.Compare)
	var all []span
	for i := 1; i < len(bounds); i++ {
		from, to := bounds[i-1], bounds[i]
		tenant, others := false, false
		for _, s := range strikes {
			if s.Began.After(from) || s.until(now).Before(to) {
				continue
			}
			byTenant := slices.Contains(s.touches, "tenant")
			tenant, others = tenant || byTenant, others || !byTenant
		}
		if tenant && !others {
			all = append(all, span{from, to})
		}
	}
	return all
}

// until is when the sinks had caught up; now if they have not.
func (s *Strike) until(now time.Time) time.Time {
	if s.Caught.IsZero() {
		return now
	}
	return s.Caught
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// percentile returns the p-th percentile; 0 of nothing.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
