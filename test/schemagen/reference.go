package schemagen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Reference is the input of docs/configuration.md.
type Reference struct {
	// Schema is the schema of the config.
	Schema []byte
	// Starter is config.example.yaml.
	Starter []byte
	// Example has an example of every section: reference.yaml.
	Example []byte
}

const referenceHead = "# Configuration\n\n" +
	"This page is generated from the code (`make docs` writes it). `informd explain <key>` shows the same meanings.\n\n" +
	"informd reads the file of `--config` (`-c`) or `INFORMD_CONFIG`. Default: `./config.yaml`, then `/etc/informd/config.yaml`.\n" +
	"Only `resources` and `sinks` are required, and `cluster` with a nats, kafka, otlp, postgres or webhook sink.\n`informd validate -c <file>` reports every mistake with line and column.\n\n" +
	"A value outside of `resources` and `sinks` also has an environment variable: `INFORMD_` and the key, as in\n" +
	"`INFORMD_JOURNAL_MAX_BYTES`. The variable overrides the file. A variable with several servers has commas between them.\n" +
	"An empty variable counts as not set, with a warning. Only `INFORMD_ADMIN_LISTEN` and `INFORMD_ADMIN_SOCKET` may be empty: they then turn off what they set.\n\n" +
	"- A duration is a number with a unit: `90s`, `10m`, `24h`.\n" +
	"- A size is a number of bytes, or has a unit: `64KiB`, `100MiB`, `10GiB`.\n" +
	"- `${env:NAME}` is the value of an environment variable, where a key takes a secret.\n" +
	"- A relative path of a file or directory is relative to the working directory of informd, not to the config file.\n\n" +
	"A config to start with is [config.example.yaml](../config.example.yaml):\n\n"

// Page makes docs/configuration.md.
func (r Reference) Page() ([]byte, error) {
	var root object
	if err := json.Unmarshal(r.Schema, &root); err != nil {
		return nil, fmt.Errorf("read the schema of the config: %w", err)
	}
	sections, err := sectionsOf(root)
	if err != nil {
		return nil, err
	}
	examples := blocks(string(r.Example))
	var page bytes.Buffer
	page.WriteString(referenceHead)
	fence(&page, string(r.Starter))
	page.WriteString("\n## What everyone needs\n")
	for _, s := range sections {
		s.print(&page, s.tier(true), "", nil)
	}
	page.WriteString("\n## Advanced\n\nThe examples have all keys of their section.\n")
	for _, s := range sections {
		if s.example != "" && examples[s.example] == nil {
			return nil, fmt.Errorf("the example has no %s", s.example)
		}
		if len(s.tier(true)) > 0 {
			s.about = "" // it is in the first tier
		}
		s.print(&page, s.tier(false), ": advanced keys", examples[s.example])
	}
	return page.Bytes(), nil
}

// section is a part of the page: the keys of a mapping, and those below it.
type section struct {
	title   string
	about   string
	example string
	keys    []documented
}

// documented is a key of the config.
type documented struct {
	key, kind, fallback, text string
	basic                     bool
}

// sectionsOf lists the sections for a schema; a top-level key without one is an error.
func sectionsOf(root object) ([]section, error) {
	properties, _ := root["properties"].(object)
	order := []string{"cluster", "kubernetes", "resources", "sinks", "journal", "replicas", "redaction", "admin", "log"}
	if known := slices.Sorted(slices.Values(order)); !slices.Equal(known, slices.Sorted(maps.Keys(properties))) {
		return nil, fmt.Errorf("the page has sections for %v, the schema has %v", known, slices.Sorted(maps.Keys(properties)))
	}
	var all []section
	for _, name := range order {
		node, _ := properties[name].(object)
		s := section{title: "`" + name + "`", example: name, about: description(node)}
		if s.keys = keysBelow(node, ""); s.keys == nil {
			s.keys = []documented{document(name, node, false)}
			s.about = ""
		}
		if name == "sinks" {
			s.title, s.example = "`sinks`: every type", "sinks/stdout"
			all = append(append(all, s.tiers(name)), sinkSections(node)...)
			continue
		}
		all = append(all, s.tiers(name))
	}
	sinks, _ := properties["sinks"].(object)
	shared, err := sharedSection(sinks)
	return append(all, shared), err
}

// sinkSections are those of the sink types.
func sinkSections(sinks object) []section {
	var all []section
	for _, branch := range sinkTypes(sinks) {
		then, _ := branch["then"].(object)
		name := typeOf(branch)
		s := section{title: "`sinks`: type `" + name + "`", example: "sinks/" + name, keys: keysBelow(then, "")}
		all = append(all, s.tiers("sinks/"+name))
	}
	return all
}

// sinkTypes are the branches of the schema, one for each sink type.
func sinkTypes(sinks object) []object {
	items, _ := sinks["items"].(object)
	branches, _ := items["allOf"].([]any)
	var all []object
	for _, branch := range branches {
		if branch, ok := branch.(object); ok {
			all = append(all, branch)
		}
	}
	return all
}

// typeOf is the sink type that a branch of the schema is for.
func typeOf(branch object) string {
	condition, _ := branch["if"].(object)
	properties, _ := condition["properties"].(object)
	of, _ := properties["type"].(object)
	name, _ := of["const"].(string)
	return name
}

// sharedSection has the keys of auth and tls, which sinks share. The schema of each type has all.
func sharedSection(sinks object) (section, error) {
	properties := object{}
	for _, branch := range sinkTypes(sinks) {
		if then, _ := branch["then"].(object); typeOf(branch) == "nats" {
			properties, _ = then["properties"].(object)
		}
	}
	s := section{title: "`auth` and `tls` of sinks", example: "auth", about: "Each type takes some of these keys; `informd validate` reports the others."}
	for _, name := range []string{"auth", "tls"} {
		node, _ := properties[name].(object)
		s.keys = append(s.keys, keysBelow(node, name+".")...)
	}
	if len(s.keys) == 0 {
		return section{}, errors.New("the schema of a nats sink has no keys in auth and tls")
	}
	return s, nil
}

// keysBelow lists the keys of a mapping, or of the mappings of a list, the required ones
// first. Mappings that several sections share are not entered.
func keysBelow(node object, prefix string) []documented {
	var required, others []documented
	for _, variant := range variants(node) {
		properties, _ := variant["properties"].(object)
		names, _ := variant["required"].([]any)
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			inner, ok := properties[key].(object)
			if !ok || inner["const"] != nil {
				continue
			}
			name, must := prefix+key, slices.Contains(names, any(key))
			found := []documented{document(name, inner, must)}
			if !shared(name, inner) {
				found = append(found, keysBelow(inner, name+index(inner)+".")...)
			}
			if must {
				required = append(required, found...)
				continue
			}
			others = append(others, found...)
		}
	}
	return append(required, others...)
}

// shared reports whether a mapping is described in the section of auth and tls.
func shared(key string, node object) bool {
	properties, _ := node["properties"].(object)
	return key == "auth" || key == "tls" && properties["serverName"] != nil
}

// variants are the mappings that a schema describes: its own, those of list items, and
// those of alternatives.
func variants(node object) []object {
	var all []object
	if node["properties"] != nil {
		all = append(all, node)
	}
	if items, ok := node["items"].(object); ok {
		all = append(all, variants(items)...)
	}
	for _, list := range []string{"anyOf", "oneOf"} {
		branches, _ := node[list].([]any)
		for _, branch := range branches {
			if branch, ok := branch.(object); ok {
				all = append(all, variants(branch)...)
			}
		}
	}
	return all
}

func index(node object) string {
	if node["type"] == "array" {
		return "[]"
	}
	return ""
}
