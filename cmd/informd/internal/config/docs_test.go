package config_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/pkg/sink/drivers"
)

// The configs in docs/filtering.md are valid, or wrong in the way that stands behind
// them.
func TestFilteringDocs(t *testing.T) {
	body, err := os.ReadFile("../../../../docs/filtering.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```yaml\n(.*?\n)```\n(?:\n```text\n(.*?)\n```\n)?").FindAllStringSubmatch(string(body), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d configs, want 3", len(blocks))
	}
	for _, block := range blocks {
		_, err := config.Parse("config.yaml", []byte(block[1]), drivers.All())
		if diff := cmp.Diff(block[2], text(err)); diff != "" {
			t.Errorf("%s\nmistakes (-want +got):\n%s", block[1], diff)
		}
	}
}
