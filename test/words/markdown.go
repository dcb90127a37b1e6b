package main

import (
	"fmt"
	"regexp"
	"strings"
)

// block is a paragraph, a list item, a table cell or a heading.
type block struct {
	line    int
	text    string
	heading bool
}

// sentence is a sentence of a block; line counts from the block's first.
type sentence struct {
	line int
	text string
}

// markdown checks the prose of a Markdown file. Code is no prose.
func (r *rules) markdown(path, text string) []finding {
	var found []finding
	for _, b := range blocks(text) {
		if b.heading { // a heading may ask a question without its mark
			b.text += "?"
		}
		found = append(found, r.words(kindMarkdown, path, b.line, b.text)...)
		for _, s := range sentences(b.text) {
			if n := len(strings.Fields(s.text)); n > r.MaxWords {
				short := strings.Join(strings.Fields(s.text), " ")
				found = append(found, finding{kindLength, path, b.line + s.line, fmt.Sprintf("sentence of %d words, at most %d: %.60s", n, r.MaxWords, short)})
			}
		}
	}
	return found
}

// blocks splits Markdown into its blocks, without code.
func blocks(text string) []block {
	item := regexp.MustCompile(`^\s*(?:[-*+]|\d+[.)])\s+`)
	var (
		all  []block
		open *block
	)
	end := func() {
		if open != nil {
			all = append(all, *open)
		}
		open = nil
	}
	for i, line := range strings.Split(plain(text), "\n") {
		line = strings.TrimPrefix(strings.TrimPrefix(line, ">"), " ")
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
			end()
		case strings.HasPrefix(trimmed, "#"):
			end()
			all = append(all, block{i + 1, strings.TrimLeft(trimmed, "# "), true})
		case strings.HasPrefix(trimmed, "|"):
			end()
			for cell := range strings.SplitSeq(strings.Trim(trimmed, "|"), "|") {
				all = append(all, block{i + 1, strings.TrimSpace(cell), false})
			}
		case open == nil || item.MatchString(line):
			end()
			open = &block{line: i + 1, text: item.ReplaceAllString(line, "")}
		default:
			open.text += "\n" + trimmed
		}
	}
	end()
	return all
}

// plain removes all that is no prose and keeps the lines: fenced code, comments, inline
// code, the targets of links.
func plain(text string) string {
	lines := func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }
	text = regexp.MustCompile("(?ms)^[ >]*```.*?^[ >]*```[^\n]*$").ReplaceAllStringFunc(text, lines)
	text = regexp.MustCompile("(?ms)^[ >]*~~~.*?^[ >]*~~~[^\n]*$").ReplaceAllStringFunc(text, lines)
	text = regexp.MustCompile("(?s)<!--.*?-->").ReplaceAllStringFunc(text, lines)
	text = regexp.MustCompile("`[^`\n]*(?:\n[^`\n]+)?`").ReplaceAllStringFunc(text, func(s string) string { return "code" + lines(s) })
	text = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(text, "")
	return regexp.MustCompile(`[\[*]|!\[`).ReplaceAllString(text, "")
}

// sentences splits a block after full stops, question marks and exclamation marks.
func sentences(text string) []sentence {
	var all []sentence
	start := 0
	add := func(end int) {
		if s := strings.TrimSpace(text[start:end]); s != "" {
			lead := len(text[start:end]) - len(strings.TrimLeft(text[start:end], " \n"))
			all = append(all, sentence{strings.Count(text[:start+lead], "\n"), s})
		}
		start = end
	}
	for _, at := range regexp.MustCompile(`[.?!][")]?\s+`).FindAllStringIndex(text, -1) {
		if before := text[start:at[0]]; !strings.HasSuffix(before, "e.g") && !strings.HasSuffix(before, "i.e") {
			add(at[1])
		}
	}
	add(len(text))
	return all
}
