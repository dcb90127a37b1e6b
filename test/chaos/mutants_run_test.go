//go:build chaos

package chaos

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMutants runs the harness against informds with one bug each; every bug must
// break an invariant that it is said to break. CHAOS_MUTANT names a single one.
func TestMutants(t *testing.T) {
	options, err := fromEnvironment()
	must(t, err)
	for _, m := range mutants() {
		if one := os.Getenv("CHAOS_MUTANT"); one != "" && one != m.name {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			o := options
			o.Binary = filepath.Join(t.TempDir(), "informd")
			buildMutant(t, m, "./cmd/informd", o.Binary)
			o.Informds = max(1, m.informds)
			o.Patience = 5 * time.Second
			o.Faults = strings.Split(m.faults, ",")
			if os.Getenv("CHAOS_MINUTES") == "" {
				o.Duration = cmp.Or(m.duration, 45*time.Second)
			}
			report, err := Run(t.Context(), o)
			must(t, err)
			caught := false
			for invariant := range report.Violations {
				caught = caught || slices.Contains(m.caughtBy, invariant)
			}
			fmt.Printf("mutant %-32s seed %d: broken %v\n", m.name, o.Seed, report.Violations)
			if !caught {
				report.Write(os.Stdout)
				t.Errorf("broken: %v, want one of %v", report.Violations, m.caughtBy)
			}
		})
	}
}
