package cli

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
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
