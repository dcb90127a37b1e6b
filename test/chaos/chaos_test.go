//go:build chaos

package chaos

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cleanup is how long ending everything may take.
const cleanup = 30 * time.Second

// TestChaos is one run. The environment says which:
//
//	CHAOS_SEED      of all choices (default: from the clock; it is printed)
//	CHAOS_MINUTES   of faults (default: 4)
//	CHAOS_FAULTS    names or ids, as "N1,N7-drip" (default: all that are possible)
//	CHAOS_JOURNAL   log or memory (default: log)
//	CHAOS_INFORMDS  how many at once (default: 1)
//	CHAOS_SECOND    version of the second API server: 1.32.0 (default: that of the first)
//	CHAOS_BASELINE  1: the hand-written informer program in informd's place; it
//	                breaks invariants, which is no failure then
//	CHAOS_RATE      writes per second (default: 200; 10 in an independent run)
//	CHAOS_INDEPENDENT
//	                1: Kubernetes' own controllers make the load
//	CHAOS_PODS      of an independent run's Deployments, at most (default: 600)
//	CHAOS_LOGS      directory to keep informd's logs in
func TestChaos(t *testing.T) {
	options, err := fromEnvironment()
	must(t, err)
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok { // go test's own end would leave things behind
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-cleanup))
		defer cancel()
	}
	report, err := Run(ctx, options)
	must(t, err)
	report.Write(os.Stdout)
	if report.Broken() && !options.Baseline {
		t.Errorf("broken invariants: %v", report.Violations)
	}
}

func fromEnvironment() (Options, error) {
	var errs []error
	number := func(name string, otherwise float64) float64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseFloat(text, 64)
		errs = append(errs, err)
		return n
	}
	o := Options{
		Seed:     uint64(time.Now().UnixMilli()),
		Duration: time.Duration(number("CHAOS_MINUTES", 4) * float64(time.Minute)),
		Journal:  os.Getenv("CHAOS_JOURNAL"), Informds: int(number("CHAOS_INFORMDS", 1)), Baseline: os.Getenv("CHAOS_BASELINE") == "1",
		SecondVersion: os.Getenv("CHAOS_SECOND"),
		Rate:          int(number("CHAOS_RATE", 0)),
		Independent:   os.Getenv("CHAOS_INDEPENDENT") == "1", Pods: int(number("CHAOS_PODS", 0)),
		Logs: os.Getenv("CHAOS_LOGS"), Out: os.Stdout,
	}
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		var err error
		o.Seed, err = strconv.ParseUint(text, 10, 64)
		errs = append(errs, err)
	}
	if text := os.Getenv("CHAOS_FAULTS"); text != "" {
		o.Faults = strings.Split(text, ",")
	}
	return o, errors.Join(errs...)
}
