package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/informd/informd/internal/display"
)

// maxREADME is the limit of README.md: a page that people read to its end.
const maxREADME = 8192

func TestDocsREADMEIsShort(t *testing.T) {
	if size := len(docsPage(t, "../../README.md")); size > maxREADME {
		t.Errorf("README.md has %d bytes, the limit is %d: move details to docs/", size, maxREADME)
	}
}

// TestDocsLinks checks that each relative link of each page leads to a file, and its anchor to a
// heading.
func TestDocsLinks(t *testing.T) {
	pages := docsPages(t)
	anchors := make(map[string]map[string]bool)
	for name, page := range pages {
		anchors[name] = docsAnchors(page)
		if regexp.MustCompile(`(?m)^(<{7}|>{7}) `).MatchString(page) {
			t.Errorf("%s: has the markers of a merge conflict", name)
		}
	}
	link := regexp.MustCompile(`\]\(([^()\s]+)\)|<(?:img|source|a)[^>]*(?:src|srcset|href)="([^"]+)"`)
	checked := 0
	for name, page := range pages {
		for _, found := range link.FindAllStringSubmatch(docsProse(page), -1) {
			target := found[1] + found[2]
			if strings.Contains(target, ":") {
				continue // an address
			}
			checked++
			if problem := docsLinkProblem(name, target, anchors); problem != "" {
				t.Errorf("%s: link %q: %s", name, target, problem)
			}
		}
	}
	if checked < 100 {
		t.Errorf("found %d links only", checked)
	}
}

// docsLinkProblem returns why a link of a page is broken, and an empty string if it works.
func docsLinkProblem(page, link string, anchors map[string]map[string]bool) string {
	file, anchor, hasAnchor := strings.Cut(link, "#")
	target := page
	if file != "" {
		target = path.Join(path.Dir(page), file)
	}
	if _, err := os.Stat("../../" + target); err != nil {
		return "there is no file " + target
	}
	switch known, isPage := anchors[target]; {
	case !hasAnchor:
		return ""
	case !isPage:
		return target + " is no page with headings"
	case !known[anchor]:
		return "there is no heading for it in " + target
	}
	return ""
}

// docsText returns a page without its blocks.
func docsText(page string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(page, "")
}

// docsProse returns a page without its code, in which brackets are no links.
func docsProse(page string) string {
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(docsText(page), "")
}

// docsAnchors returns the anchors of a page's headings, as GitHub makes them.
func docsAnchors(page string) map[string]bool {
	anchors := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^#+ +(.*?) *$`).FindAllStringSubmatch(docsText(page), -1) {
		text := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, text)
		anchor := slug
		for n := 1; anchors[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", slug, n)
		}
		anchors[anchor] = true
	}
	return anchors
}

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
	must(t, yaml.Unmarshal([]byte(docsPage(t, "../../deploy/prometheus-rules.yaml")), &rules))
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
		must(t, err)
	}
	return found
}
