package emit

import "github.com/informd/informd/pkg/dynwatch/internal/listwatch"

// recentNames is how many names that had events lately an audit reads from etcd.
const recentNames = 16

// Recent is a ring of names that had events lately.
type Recent struct {
	names [recentNames]listwatch.Listed
	next  int
}

// Add adds a name.
func (r *Recent) Add(namespace, name string) {
	r.names[r.next%recentNames] = listwatch.Listed{Namespace: namespace, Name: name}
	r.next++
}

// Of returns the names in covered namespaces.
func (r *Recent) Of(covers func(namespace string) bool) (names []listwatch.Listed) {
	for _, n := range r.names {
		if n.Name != "" && covers(n.Namespace) {
			names = append(names, n)
		}
	}
	return names
}
