package config

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// node is a value of the file with its place. Anchors, aliases, merge keys and
// tags are resolved: several nodes may share what is below them, but never in a
// circle.
type node struct {
	kind  kind
	at    Pos
	text  string // of scalars, as written, without quotes
	pairs []pair // of a mapping
	items []*node
}

type pair struct {
	key   string
	at    Pos
	value *node
}

type kind int

const (
	broken kind = iota // reported already
	null
	text
	number
	boolean
	mapping
	sequence
)

func (k kind) String() string {
	return [...]string{"a broken value", "nothing", "text", "a number", "true or false", "a mapping", "a list"}[k]
}

// pair returns the pair of that key, or nil.
func (n *node) pair(key string) *pair {
	for i := range n.pairs {
		if n.pairs[i].key == key {
			return &n.pairs[i]
		}
	}
	return nil
}

const (
	// maxMerged bounds the pairs that merge keys copy. Without aliases a file
	// has fewer than maxTokens.
	maxMerged = 100_000
	maxKey    = 200 // bytes of a key
)

// tree makes nodes of the parser's.
type tree struct {
	*reading
	anchors map[string]*node
	merged  int
}

func (t *tree) node(n ast.Node, path string, depth int) *node {
	out := &node{at: t.begin(n)}
	if depth > maxDepth {
		t.add(out.at, "", "nested deeper than %d levels", maxDepth)
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind = null
	case *ast.BoolNode:
		out.kind, out.text = boolean, n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = number, n.GetToken().Value
	case *ast.StringNode:
		out.kind, out.text = text, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = text, n.Value.Value
	case *ast.MappingNode:
		out.kind, out.pairs = mapping, t.pairs(n.Values, path, depth)
	case *ast.MappingValueNode:
		out.kind, out.pairs = mapping, t.pairs([]*ast.MappingValueNode{n}, path, depth)
	case *ast.SequenceNode:
		out.kind = sequence
		for i, item := range n.Values {
			out.items = append(out.items, t.node(item, index(path, i), depth+1))
		}
	case *ast.AnchorNode:
		// The name is known only after its value: an alias can never be inside
		// of what it stands for.
		inner := t.node(n.Value, path, depth+1)
		t.anchors[n.Name.GetToken().Value] = inner
		return inner
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if anchored, ok := t.anchors[name]; ok {
			return anchored
		}
		t.add(out.at, path, "no anchor &%s before this alias; a value that begins with * goes in quotes", name)
	case *ast.TagNode:
		return t.tagged(n, path, depth)
	default:
		t.add(out.at, path, "a YAML %s has no meaning here", n.Type().YAMLName())
	}
	return out
}

// tagged resolves the tags of YAML itself; there are no others.
func (t *tree) tagged(n *ast.TagNode, path string, depth int) *node {
	tag := n.GetToken().Value
	inner := &node{at: t.begin(n)}
	if n.Value != nil {
		inner = t.node(n.Value, path, depth+1)
	}
	switch tag {
	case "!!str":
		if inner.kind == number || inner.kind == boolean || inner.kind == null {
			return &node{kind: text, at: inner.at, text: inner.text}
		}
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
	default:
		t.add(t.begin(n), path, "%s is a YAML tag: put text that starts with ! in quotes", quote(tag))
		return &node{at: inner.at}
	}
	return inner
}

// pairs returns the pairs of a mapping, those of merge keys behind its own.
func (t *tree) pairs(values []*ast.MappingValueNode, path string, depth int) []pair {
	var own []pair
	var merges []*node
	seen := make(map[string]Pos, len(values))
	for _, v := range values {
		at := t.begin(v.Key)
		if v.Key.IsMergeKey() {
			merges = append(merges, t.node(v.Value, path, depth+1))
			continue
		}
		key, ok := t.key(v.Key, path, depth)
		if !ok {
			continue
		}
		if first, ok := seen[key]; ok {
			t.add(at, join(path, key), "is here twice, first on line %d; remove one", first.Line)
			continue
		}
		seen[key] = at
		own = append(own, pair{key, at, t.node(v.Value, join(path, key), depth+1)})
	}
	for _, m := range merges {
		own = t.merge(own, seen, m, path)
	}
	return own
}

// key returns a mapping's key, which must be plain text.
func (t *tree) key(n ast.MapKeyNode, path string, depth int) (string, bool) {
	inner := ast.Node(n)
	if question, ok := n.(*ast.MappingKeyNode); ok {
		inner = question.Value
	}
	key := t.node(inner, path, depth+1)
	switch {
	case key.kind == broken:
		return "", false
	case key.kind == mapping || key.kind == sequence:
		t.add(t.begin(n), path, "%s cannot be a key", key.kind)
		return "", false
	case len(key.text) > maxKey:
		t.add(t.begin(n), path, "a key of more than %d bytes", maxKey)
		return "", false
	}
	return key.text, true
}

// merge adds the pairs of what stands behind "<<", a mapping or a list of them.
// Earlier pairs win over later ones.
func (t *tree) merge(own []pair, seen map[string]Pos, from *node, path string) []pair {
	switch from.kind {
	case mapping:
		for _, p := range from.pairs {
			if !t.affordable(from.at, path) {
				return own
			}
			if _, ok := seen[p.key]; !ok {
				seen[p.key] = p.at
				own = append(own, p)
			}
		}
	case sequence:
		for _, item := range from.items {
			if !t.affordable(from.at, path) {
				return own
			}
			if item.kind == sequence {
				t.add(item.at, path, "<< takes a mapping or a list of mappings")
				continue
			}
			own = t.merge(own, seen, item, path)
		}
	case broken:
	default:
		t.add(from.at, path, "<< takes a mapping or a list of mappings, not %s", from.kind)
	}
	return own
}

// affordable counts one step of merging and says once if there were too many.
func (t *tree) affordable(at Pos, path string) bool {
	t.merged++
	if t.merged == maxMerged+1 {
		t.add(at, path, "merge keys expand to more than %d keys", maxMerged)
	}
	return t.merged <= maxMerged
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// join appends a key to a path. Keys are the user's, so odd ones are quoted.
func join(path, key string) string {
	odd := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`."[]:`, c) }
	if key == "" || len(key) > maxQuoted || strings.ContainsFunc(key, odd) {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
