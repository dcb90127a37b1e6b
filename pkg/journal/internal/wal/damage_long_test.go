//go:build long

package wal_test

import (
	"fmt"
	"slices"
	"testing"
)

func TestDamage(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprint("clean=", clean), func(t *testing.T) {
			mayMiss := lastRecord
			if clean {
				mayMiss = nothing
			}
			base := smallLog(t, clean)
			whole, declared := inspect(t, base.Clone(1))
			if len(whole) < 15 || declared {
				t.Fatalf("%v, declares a loss: %v", whole, declared)
			}
			names, err := base.Names()
			if err != nil || len(names) < 6 {
				t.Fatal(names, err)
			}
			slices.Sort(names)
			bytes := 0
			for _, name := range names {
				size := len(base.Content(name))
				for at := len(names) % step(); at < size; at += step() {
					d := base.Clone(uint64(at))
					d.Flip(name, 8*at+at%8)
					checkDamaged(t, fmt.Sprintf("byte %d of %d in %s", at, size, name), d, whole, mayMiss)
				}
				bytes += size
				d := base.Clone(1)
				must(t, d.Remove(name))
				checkDamaged(t, "without "+name, d, whole, mayMiss)
			}
			t.Logf("%d bytes of %d files", bytes, len(names))
		})
	}
}
