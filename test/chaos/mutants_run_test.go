//go:build chaos

package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
			o.Binary = buildMutant(t, m)
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

// buildMutant builds informd with the bug; the checkout stays as it is.
func buildMutant(t *testing.T, m mutant) string {
	t.Helper()
	content, once, err := m.apply()
	if err != nil || !once {
		t.Fatalf("the bug does not fit: %v", err)
	}
	dir := t.TempDir()
	module, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	file := filepath.Join(dir, "mutant.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(module, filepath.FromSlash(m.file)): file}})
	must(t, err)
	list := filepath.Join(dir, "overlay.json")
	for path, text := range map[string][]byte{file: content, list: overlay} {
		must(t, os.WriteFile(path, text, 0o600))
	}
	binary := filepath.Join(dir, "informd")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "-trimpath", "-o", binary, "./cmd/informd")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	return binary
}
