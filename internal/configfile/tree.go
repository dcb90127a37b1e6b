package configfile

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/informd/informd/internal/config"
)

// node is a value of the file with its place. Anchors, aliases and merge keys
// are resolved: several nodes may share what is below them, but never in a
// circle.
type node struct {
	Kind kind
	At   config.Pos
	// Text is a scalar as written, without quotes; Pairs are those of a mapping, Items those of a
	// sequence.
	Text  string
	Pairs []pair
	Items []*node
}

// pair is a key of a mapping with its value, at the place of the key.
type pair struct {
	Key   string
	At    config.Pos
	Value *node
}

// kind is the kind of a value.
type kind int

// The kinds of values. kindBroken has been reported already.
const (
	kindBroken kind = iota
	kindNull
	kindText
	kindNumber
	kindBoolean
	kindMapping
	kindSequence
)

func (k kind) String() string {
	return [...]string{"a broken value", "nothing", "text", "a number", "true or false", "a mapping", "a list"}[k]
}

// Pair returns the pair of that key, or nil.
func (n *node) Pair(key string) *pair {
	for i := range n.Pairs {
		if n.Pairs[i].Key == key {
			return &n.Pairs[i]
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

// Root parses body and returns its value. It returns nil if it noted a problem: such a text
// cannot be checked any further.
func (d *document) Root(body []byte) *node {
	parsed := d.parse(body)
	if parsed == nil {
		return nil
	}
	t := tree{document: d, anchors: map[string]*node{}}
	return t.node(parsed, "", 0)
}

// tree makes nodes of the parser's.
type tree struct {
	*document
	anchors map[string]*node
	merged  int
}

func (t *tree) node(n ast.Node, path string, depth int) *node {
	out := &node{At: t.begin(n)}
	if depth > maxDepth {
		t.Add(out.At, "", "nested deeper than %d levels", maxDepth)
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
		out.Kind = kindNull
	case *ast.BoolNode:
		out.Kind, out.Text = kindBoolean, n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.Kind, out.Text = kindNumber, n.GetToken().Value
	case *ast.StringNode:
		out.Kind, out.Text = kindText, n.Value
	case *ast.LiteralNode:
		out.Kind, out.Text = kindText, n.Value.Value
	case *ast.MappingNode:
		out.Kind, out.Pairs = kindMapping, t.pairs(n.Values, path, depth)
	case *ast.MappingValueNode:
		out.Kind, out.Pairs = kindMapping, t.pairs([]*ast.MappingValueNode{n}, path, depth)
	case *ast.SequenceNode:
		out.Kind = kindSequence
		for i, item := range n.Values {
			out.Items = append(out.Items, t.node(item, config.Index(path, i), depth+1))
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
		t.Add(out.At, path, "no anchor &%s before this alias; a value that begins with * goes in quotes", name)
	case *ast.TagNode:
		t.Add(out.At, path, "%s is a YAML tag: put text that starts with ! in quotes", config.Quote(n.GetToken().Value))
	default:
		t.Add(out.At, path, "a YAML %s has no meaning here", n.Type().YAMLName())
	}
	return out
}

// pairs returns the pairs of a mapping, those of merge keys behind its own.
func (t *tree) pairs(values []*ast.MappingValueNode, path string, depth int) []pair {
	var own []pair
	var merges []*node
	seen := make(map[string]config.Pos, len(values))
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
			t.Add(at, config.Join(path, key), "is here twice, first on line %d; remove one", first.Line)
			continue
		}
		seen[key] = at
		own = append(own, pair{key, at, t.node(v.Value, config.Join(path, key), depth+1)})
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
	case key.Kind == kindBroken:
		return "", false
	case key.Kind == kindMapping || key.Kind == kindSequence:
		t.Add(t.begin(n), path, "%s cannot be a key", key.Kind)
		return "", false
	case len(key.Text) > maxKey:
		t.Add(t.begin(n), path, "a key of more than %d bytes", maxKey)
		return "", false
	}
	return key.Text, true
}

// merge adds the pairs of what stands behind "<<", a mapping or a list of them.
// Earlier pairs win over later ones.
func (t *tree) merge(own []pair, seen map[string]config.Pos, from *node, path string) []pair {
	switch from.Kind {
	case kindMapping:
		for _, p := range from.Pairs {
			if !t.affordable(from.At, path) {
				return own
			}
			if _, ok := seen[p.Key]; !ok {
				seen[p.Key] = p.At
				own = append(own, p)
			}
		}
	case kindSequence:
		for _, item := range from.Items {
			if !t.affordable(from.At, path) {
				return own
			}
			if item.Kind == kindSequence {
				t.Add(item.At, path, "<< takes a mapping or a list of mappings")
				continue
			}
			own = t.merge(own, seen, item, path)
		}
	case kindBroken:
	default:
		t.Add(from.At, path, "<< takes a mapping or a list of mappings, not %s", from.Kind)
	}
	return own
}

// affordable counts one step of merging and says once if there were too many.
func (t *tree) affordable(at config.Pos, path string) bool {
	t.merged++
	if t.merged == maxMerged+1 {
		t.Add(at, path, "merge keys expand to more than %d keys", maxMerged)
	}
	return t.merged <= maxMerged
}
