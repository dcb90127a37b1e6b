package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHarness runs every kind of client and every other case with as little as there
// can be, and looks at what was delivered and which rows were measured, never at how
// long it took.
func TestHarness(t *testing.T) {
	b := &bench{root: "../..", quick: true, rounds: 1, began: time.Now(), dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	if err := b.build(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.cases(ctx); err != nil {
		t.Fatal(err)
	}
	seen := make(map[kind]bool)
	for _, r := range b.runs {
		seen[r.Client] = true
		updates := int64(r.Stream.Events + warmup(r.Stream.Events))
		if r.DeliveredObjects != int64(r.Objects) || r.DeliveredUpdates != updates {
			t.Errorf("%s: %s handled %d objects and %d updates, want %d and %d", r.Case, r.Client, r.DeliveredObjects, r.DeliveredUpdates, r.Objects, updates)
		}
		if r.Stream.CPU <= 0 || r.RSS <= 0 {
			t.Errorf("%s: %s used %v of CPU and %.1f MiB", r.Case, r.Client, r.Stream.CPU, r.RSS)
		}
	}
	for _, k := range []kind{informd, baseline, floor} {
		if !seen[k] {
			t.Errorf("%s did not run", k)
		}
	}
	b.judge()
	for _, r := range b.rows {
		if len(r.Values) == 0 || spreadOf(r.Values).Runs == 0 {
			t.Errorf("row %q was not measured", r.Metric)
		}
	}
	b.json = filepath.Join(t.TempDir(), "bench.json")
	var table strings.Builder
	if err := b.report(ctx, &table); err != nil {
		t.Fatal(err)
	}
	t.Log(table.String())
}
