package configfile_test

import (
	"os"
	"strings"
	"testing"

	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
)

// The example at the root of the repository is a short config to start with. It is valid
// for the sinks that informd is built with, and needs no environment.
func TestExample(t *testing.T) {
	const file = "../../config.example.yaml"
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := configfile.Parse(file, body, drivers.All()); err != nil {
		t.Fatalf("Parse:\n%v", err)
	}
	if lines := strings.Count(string(body), "\n"); lines > 25 {
		t.Errorf("the example has %d lines, want 25 or fewer: docs/configuration.md has all keys", lines)
	}
}
