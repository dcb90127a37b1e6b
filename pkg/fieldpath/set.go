package fieldpath

// Set is paths in the form in which objects are held against them. It never changes.
type Set struct{ root node }

// node is where the paths of a set have come to that have the same beginning.
type node struct {
	named        map[string]*node
	any, element *node
	ends         []int // the paths that end here
	// through is what goes on into the elements of an array if keys follow here: the
	// same node, where nothing ends. It is nil if none follow.
	through *node
}

// NewSet returns the set of the paths, which are known by their index.
func NewSet(paths ...Path) *Set {
	s := &Set{}
	for i, p := range paths {
		n := &s.root
		for _, step := range p.steps {
			n = n.child(step)
		}
		if n != &s.root {
			n.ends = append(n.ends, i)
		}
	}
	s.root.seal()
	return s
}

// seal makes what goes through arrays, below as well.
func (n *node) seal() {
	if n == nil {
		return
	}
	for _, one := range n.named {
		one.seal()
	}
	n.any.seal()
	n.element.seal()
	if n.named != nil || n.any != nil {
		n.through = &node{named: n.named, any: n.any}
		n.through.through = n.through // arrays in arrays
	}
}

// child returns the node one step down, which it makes if there is none.
func (n *node) child(s step) *node {
	switch s.kind {
	case anyKey:
		if n.any == nil {
			n.any = new(node)
		}
		return n.any
	case element:
		if n.element == nil {
			n.element = new(node)
		}
		return n.element
	default:
		next := n.named[s.key]
		if next == nil {
			if n.named == nil {
				n.named = make(map[string]*node)
			}
			next = new(node)
			n.named[s.key] = next
		}
		return next
	}
}

// enters reports whether a path goes on into a value that begins with c.
func (n *node) enters(c byte) bool {
	return c == '{' && n.through != nil || c == '[' && (n.element != nil || n.through != nil)
}

// window is part of a stack: the nodes that paths have come to at one value. With "*"
// and names side by side they are several.
type window struct{ from, to int }

// nodes is the stack of a walk through an object.
type nodes []*node

// push makes a window of one node.
func (s *nodes) push(n *node) window {
	w := window{from: len(*s)}
	if n != nil {
		*s = append(*s, n)
	}
	w.to = len(*s)
	return w
}

// into makes the window of what is one step down: the member of a key, or an element.
func (s *nodes) into(w window, array bool, key []byte) window {
	next := window{from: len(*s)}
	for i := w.from; i < w.to; i++ {
		n := (*s)[i]
		if array {
			if n.element != nil {
				*s = append(*s, n.element)
			}
			if n.through != nil {
				*s = append(*s, n.through)
			}
			continue
		}
		if one := n.named[string(key)]; one != nil {
			*s = append(*s, one)
		}
		if n.any != nil {
			*s = append(*s, n.any)
		}
	}
	next.to = len(*s)
	return next
}

// end reports whether a path ends at the window's value.
func (s nodes) end(w window) bool {
	for _, n := range s[w.from:w.to] {
		if len(n.ends) > 0 {
			return true
		}
	}
	return false
}

// enter reports whether a path goes on into the window's value, which begins with c.
func (s nodes) enter(w window, c byte) bool {
	for _, n := range s[w.from:w.to] {
		if n.enters(c) {
			return true
		}
	}
	return false
}
