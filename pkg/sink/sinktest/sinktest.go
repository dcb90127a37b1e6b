// Package sinktest is the conformance suite that every sink passes. The test of a sink
// describes in a [Target] how to open the sink against a real destination and how to read
// the destination; [Run] does the rest:
//
//	func TestConformance(t *testing.T) {
//		sinktest.Run(t, sinktest.Target{Lanes: 1, Setup: setup})
//	}
//
// The suite checks the contract of [sink.Sink]: order, the count that Write returns, recovery
// from partial failures, the kinds of errors, the end of the context, and that a batch is
// neither changed nor kept. It knows no sink type. Tests of the sink itself cover its special
// features (rotation, signatures, deduplication); they can use [Events] and its siblings for
// input.
package sinktest

import (
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Target is a sink type under test.
type Target struct {
	// Lanes is the driver's [sink.Driver.Lanes].
	Lanes int
	// Setup makes a destination that holds nothing yet. It is called for every
	// check and leaves the tidying up to t.Cleanup.
	Setup func(t *testing.T) *Destination
	// IgnoreGoroutines names goroutines that the destination, not the sink,
	// starts while a check runs.
	IgnoreGoroutines []goleak.Option
}

// Destination is one place that a sink writes to, seen from behind. Open and
// Received are required. Checks that need a nil function are not run.
type Destination struct {
	// Open opens a sink that writes here. It is called again after the sink
	// before was closed, and fails the test if the sink does not open.
	Open func(t *testing.T) sink.Sink
	// Received returns all that the destination holds, in its order and with
	// duplicates. If the way there has buffers behind Write's acknowledgement,
	// it waits for what they hold.
	Received func(t *testing.T) []Record
	// Break makes every Write fail in a way that passes, until Heal. The
	// destination should take that many more events first, or about so.
	Break func(t *testing.T, after int)
	// Stall makes the destination neither take nor refuse anything until Heal.
	// It may have buffers of less than 4 MiB that still fill.
	Stall func(t *testing.T)
	// Heal ends what Break or Stall began. Required if one of them is there.
	Heal func(t *testing.T)
	// Normalised: the destination keeps data as JSON values and not byte by byte, so only their
	// meaning is compared.
	Normalised bool
	// Identity returns what the sinks that were opened have reported last with [sink.Env.Found]. Only
	// a [sink.Positioned] needs it.
	Identity func() string
	// Poison returns an event that the destination refuses for good. Its object
	// is not in the samples of this package.
	Poison func(t *testing.T) event.Event
}

// Env is what a sink gets in a test: the cluster "test" and the test's own log.
func Env(t *testing.T) sink.Env {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	return sink.Env{Name: "sut", Cluster: sampleCluster, Logger: logger, Stdout: io.Discard}
}

// patience is the longest that any single step may take before the suite calls
// it stuck. It is far above what a sink needs, for the sake of busy machines.
const patience = 30 * time.Second

// check is one rule of the contract.
type check struct {
	run func(t *testing.T, h *harness)
	// needs says whether the destination can play its part; nil is yes.
	needs func(d *Destination) bool
}

func checks(target Target) map[string]check {
	breaks := func(d *Destination) bool { return d.Break != nil }
	stalls := func(d *Destination) bool { return d.Stall != nil }
	poisons := func(d *Destination) bool { return d.Poison != nil }
	positioned := func(d *Destination) bool { return d.Identity != nil }
	lanes := func(*Destination) bool { return target.Lanes > 1 }
	small, large := Events(4), Big(2, 3<<19) // etcd's default limit is 1.5 MiB for an object
	big := slices.Concat(small[:1], large[:1], small[1:3], large[1:], small[3:])
	return map[string]check{
		"order and acknowledgement":           {run: checkOrder},
		"all operations":                      {run: checkContents(AllOps())},
		"hostile names":                       {run: checkContents(Hostile())},
		"big events":                          {run: checkContents(big)},
		"empty batch":                         {run: checkEmpty},
		"open again":                          {run: checkReopen},
		"context ended before":                {run: checkEndedContext},
		"context ends in between":             {run: checkRacingContext},
		"context ends while stalled":          {run: checkStalled, needs: stalls},
		"close while stalled":                 {run: checkCloseStalled, needs: stalls},
		"transient failure at once":           {run: checkBreak(0), needs: breaks},
		"transient failure inside a batch":    {run: checkBreak(3), needs: breaks},
		"close after failure":                 {run: checkCloseAfterFailure, needs: breaks},
		"permanent failure at the beginning":  {run: checkPoison(0), needs: poisons},
		"permanent failure inside a batch":    {run: checkPoison(2), needs: poisons},
		"permanent failure at the end":        {run: checkPoison(4), needs: poisons},
		"repeated positions":                  {run: checkRepetitions, needs: positioned},
		"lost events":                         {run: checkLost, needs: positioned},
		"concurrent batches of other objects": {run: checkLanes(target.Lanes), needs: lanes},
	}
}

// Run holds the sink to the contract, one subtest for each rule. The subtest setup asks Target.Setup which
// rules apply: to run one alone, use -run 'TestName/(setup|rule)'.
func Run(t *testing.T, target Target) {
	t.Helper()
	if target.Lanes < 1 {
		t.Fatalf("Target.Lanes = %d, want the driver's, at least 1", target.Lanes)
	}
	var able *Destination
	t.Run("setup", func(t *testing.T) { able = target.Setup(t) })
	if able == nil {
		t.Fatal("Target.Setup made no destination")
	}
	for name, c := range checks(target) {
		if c.needs != nil && !c.needs(able) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			destination := target.Setup(t)
			// Registered before the harness registers Close: runs after it.
			before := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, append(target.IgnoreGoroutines, before)...) })
			c.run(t, newHarness(t, destination))
		})
	}
}
