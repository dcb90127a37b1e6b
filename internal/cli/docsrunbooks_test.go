package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/informd/informd/internal/display"
)

// TestDocsRunbooks: each alert has a severity and a link to its own entry of docs/runbooks.md, and each
// reason of a gap has an entry. internal/daemon holds the other copies of the rules to this file.
func TestDocsRunbooks(t *testing.T) {
	anchors := docsAnchors(docsPage(t, "../../docs/runbooks.md"))
	leadsToEntry := func(address string) bool {
		page, anchor, _ := strings.Cut(address, "#")
		return strings.HasSuffix(page, "/docs/runbooks.md") && anchors[anchor]
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert               string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(docsPage(t, "../../deploy/prometheus-rules.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts++
			if s := rule.Labels["severity"]; s != "warning" && s != "critical" {
				t.Errorf("%s has the severity %q", rule.Alert, s)
			}
			if address := rule.Annotations["runbook_url"]; address != display.AlertRunbook(rule.Alert) || !leadsToEntry(address) {
				t.Errorf("%s has no entry at %s", rule.Alert, address)
			}
		}
	}
	for _, alert := range inCode(t, regexp.MustCompile(`AlertRunbook\("(\w+)"\)`), "../../pkg", "../../internal") {
		if address := display.AlertRunbook(alert); !leadsToEntry(address) {
			t.Errorf("a log line leads to %s, which is no entry", address)
		}
	}
	// These are all reasons that the code gives to gaps.
	form := regexp.MustCompile(`(?:\b[Rr]eason\w+ += |GapInfo\{Reason: |GapRunbook\()"([a-z-]+)"`)
	reasons := inCode(t, form, "../../pkg/dynwatch", "../../pkg/journal", "../../internal")
	if alerts < 10 || len(reasons) < 10 {
		t.Errorf("found %d alerts, %d reasons only", alerts, len(reasons))
	}
	for _, reason := range reasons {
		if address := display.GapRunbook(reason); !leadsToEntry(address) {
			t.Errorf("gaps of the reason %s have no entry at %s", reason, address)
		}
	}
}

// inCode returns what the group of a form matches in the code below some directories, tests left out.
func inCode(t *testing.T, form *regexp.Regexp, roots ...string) (found []string) {
	t.Helper()
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(filepath.Clean(path))
			for _, match := range form.FindAllStringSubmatch(string(text), -1) {
				found = append(found, match[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
