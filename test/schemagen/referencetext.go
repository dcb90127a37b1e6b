package schemagen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/informd/informd/internal/configfile"
)

// basicKeys are the keys of the first tier, by section.
func basicKeys() map[string][]string {
	return map[string][]string{
		"cluster":        {"cluster"},
		"kubernetes":     {"kubeconfig", "context"},
		"resources":      {"resource", "group", "version", "namespaces", "labelSelector", "fieldSelector"},
		"sinks":          {"name", "type", "match", "match[].group", "match[].resource", "match[].namespaces", "match[].ops"},
		"sinks/stdout":   {"format"},
		"sinks/exec":     {"command", "ack", "env"},
		"sinks/file":     {"path", "maxBytes", "maxFiles"},
		"sinks/nats":     {"servers", "auth", "tls", "subjectPrefix"},
		"sinks/kafka":    {"servers", "auth", "tls", "topic"},
		"sinks/otlp":     {"url", "protocol", "shape", "auth", "allowHTTP"},
		"sinks/postgres": {"servers", "database", "auth", "tls", "retention"},
		"sinks/webhook":  {"url", "auth", "signing", "signing.keyFile"},
		"journal":        {"type", "dir", "maxBytes"},
		"replicas":       {"lease"},
		"admin":          {"listen"},
		"log":            {"level", "format"},
	}
}

// tiers marks the basic keys of a section.
func (s section) tiers(name string) section {
	for i, key := range s.keys {
		s.keys[i].basic = slices.Contains(basicKeys()[name], key.key)
	}
	return s
}

// tier are the keys of one tier.
func (s section) tier(basic bool) []documented {
	var keys []documented
	for _, key := range s.keys {
		if key.basic == basic {
			keys = append(keys, key)
		}
	}
	return keys
}

// print writes a table of keys and examples, or nothing if there are neither.
func (s section) print(page *bytes.Buffer, keys []documented, suffix string, examples []string) {
	if len(keys) == 0 && examples == nil {
		return
	}
	fmt.Fprintf(page, "\n### %s%s\n\n", s.title, suffix)
	if s.about != "" {
		fmt.Fprintf(page, "%s\n\n", s.about)
	}
	if len(keys) > 0 {
		page.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
	}
	for _, key := range keys {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", key.key, key.kind, key.fallback, strings.ReplaceAll(key.text, "|", `\|`))
	}
	for i, example := range examples {
		if i > 0 || len(keys) > 0 {
			page.WriteByte('\n')
		}
		fence(page, example)
	}
}

func fence(page *bytes.Buffer, text string) {
	fmt.Fprintf(page, "```yaml\n%s\n```\n", strings.Trim(text, "\n"))
}

// document describes a key.
func document(name string, node object, required bool) documented {
	leaf := name[strings.LastIndex(name, ".")+1:]
	d := documented{key: name, kind: kindOf(node), fallback: "–", text: meaning(leaf, description(node))}
	switch fallback := node["default"]; {
	case required:
		d.fallback = "required"
	case fallback != nil:
		text, _ := json.Marshal(fallback) // it was unmarshaled
		d.fallback = "`" + strings.Trim(string(text), `"`) + "`"
	}
	return d
}

// description is the text of a schema, as a sentence.
func description(node object) string {
	text, _ := node["description"].(string)
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// meaning is the text of a key without the name of the key, which the row has. If the text
// needs the name as its subject, the name is code.
func meaning(key, text string) string {
	first, rest, _ := strings.Cut(text, " ")
	if !strings.EqualFold(first, key) {
		return text
	}
	for _, verb := range []string{"is ", "are "} {
		if without, ok := strings.CutPrefix(rest, verb); ok {
			return strings.ToUpper(without[:1]) + without[1:]
		}
	}
	return "`" + key + "` " + rest
}

// kindOf names the type of a key with the values that it takes.
func kindOf(node object) string {
	var kinds []string
	for _, list := range []string{"anyOf", "oneOf"} {
		branches, _ := node[list].([]any)
		for _, branch := range branches {
			if branch, ok := branch.(object); ok {
				kinds = append(kinds, kindOf(branch))
			}
		}
	}
	if len(kinds) == 2 && kinds[0] == "list of "+kinds[1] {
		return kinds[0] + "; or one without the list"
	}
	if kinds != nil {
		return strings.Join(slices.Compact(kinds), " or ")
	}
	if values, ok := node["enum"].([]any); ok {
		for _, value := range values {
			kinds = append(kinds, fmt.Sprintf("`%v`", value))
		}
		return strings.Join(kinds, ", ")
	}
	switch node["pattern"] {
	case configfile.DurationPattern:
		return "duration"
	case configfile.SizePattern:
		return "size"
	}
	name, ok := node["type"].(string)
	if types, several := node["type"].([]any); several && len(types) > 0 {
		name, ok = types[0].(string)
	}
	if items, list := node["items"].(object); list {
		return "list of " + strings.ReplaceAll(kindOf(items), "mapping", "mappings")
	}
	known := map[string]string{"object": "mapping", "string": "text", "array": "list"}
	if word := known[name]; ok && word != "" {
		return word
	}
	return name
}

// blocks cuts a text into its top-level keys, each with the comment above it. The first
// sinks becomes a block for each type, the second is the example of auth.
func blocks(text string) map[string][]string {
	found := map[string][]string{}
	top := regexp.MustCompile(`(?m)^([a-z][A-Za-z]*):`)
	for _, part := range cut(text, `(?m)^(#.*\n)*[a-z][A-Za-z]*:`) {
		name := top.FindStringSubmatch(part)[1]
		switch {
		case name != "sinks":
			found[name] = append(found[name], part)
		case found["sinks/stdout"] != nil:
			found["auth"] = append(found["auth"], part)
		default:
			maps.Copy(found, entries(part))
		}
	}
	return found
}

// entries cuts sinks into a block for each type.
func entries(sinks string) map[string][]string {
	found := map[string][]string{}
	for _, entry := range cut(sinks, `(?m)^  - name: `) {
		if of := regexp.MustCompile(`(?m)^    type: ([a-z]+)`).FindStringSubmatch(entry); of != nil {
			found["sinks/"+of[1]] = []string{"sinks:\n" + entry}
		}
	}
	return found
}

// cut cuts a text where a pattern matches. It drops the text before the first match.
func cut(text, pattern string) []string {
	var parts []string
	starts := regexp.MustCompile(pattern).FindAllStringIndex(text, -1)
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		parts = append(parts, text[start[0]:end])
	}
	return parts
}
