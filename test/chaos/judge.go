package chaos

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report checks everything.
func (r *run) report() (*Report, error) {
	truth := r.rig.oracle.Truth()
	truth.Settled = r.settled
	strikes := r.nemesis.Strikes()
	report := newReport(r, truth, strikes)
	misnamed := checkLetters(truth, r.letters)
	var dropped map[string]bool // of the nats sink
	for _, c := range r.rig.consumers() {
		sink, err := c.sink(r.rig.targets)
		if err != nil {
			return nil, err
		}
		sink.Base, sink.Unchained = r.base, r.options.Baseline
		v := check(truth, sink, Limits{Repeats: repeatsPerStrike * (1 + len(strikes))})
		report.addSink(truth, sink, v)
		if c == r.rig.stream {
			dropped = v.dropped
		}
	}
	for _, v := range slices.Concat(r.late, r.rig.violations, misnamed) {
		report.addViolation(truth, nil, v)
	}
	if r.rig.witness != nil {
		for _, v := range slices.Concat(r.rig.witness.losses(strikes), r.rig.witness.writers(strikes)) {
			report.addViolation(truth, nil, v)
		}
	}
	for _, d := range r.rig.informds {
		report.MaxRSS = max(report.MaxRSS, d.MaxRSS())
	}
	if !r.options.Baseline {
		for _, v := range slices.Concat(r.processes(strikes), r.leaks(), isolation(r.rig, strikes), neighbours(r.rig, strikes), checkView(truth, r.rig.targets, r.rows, dropped)) {
			report.addViolation(truth, nil, v)
		}
	}
	return report, nil
}

// processes is I8 and I13. Damage that no start has found ends the process that reads it.
func (r *run) processes(strikes []Strike) []Violation {
	var all []Violation
	for i, d := range r.rig.informds {
		if d.MaxRSS() > r.options.RSS {
			all = append(all, Violation{Invariant: "I8", Text: fmt.Sprintf("informd %d took %d MiB, its budget is %d MiB", i, d.MaxRSS()>>20, r.options.RSS>>20)})
		}
		for _, e := range d.exited() {
			if strings.Contains(e.tail, "the log is damaged") && damagedBefore(strikes, e.at) {
				continue
			}
			all = append(all, Violation{Invariant: "I13", Text: fmt.Sprintf("informd %d ended by itself: %s %s", i, e.at.Format(time.TimeOnly), e.tail)})
		}
	}
	return all
}

// leaks is I11 for what informd keeps for itself: log and journal.
func (r *run) leaks() []Violation {
	var all []Violation
	look := func(path string) {
		content, err := os.ReadFile(path)
		if err == nil && holdsCanary(content) {
			all = append(all, Violation{Invariant: "I11", Text: filepath.Base(path) + " holds the value of a Secret"})
		}
	}
	for i, d := range r.rig.informds {
		look(d.log)
		_ = filepath.WalkDir(r.rig.sides[i].dir, func(path string, entry fs.DirEntry, err error) error { // files come and go
			if err == nil && entry.Type().IsRegular() {
				look(path)
			}
			return nil
		})
	}
	return all
}
