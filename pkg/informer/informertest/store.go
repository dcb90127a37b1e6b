package informertest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// key names an object. All versions of a resource have the same objects.
type key struct {
	of              schema.GroupResource
	namespace, name string
}

// path orders objects, as the keys of etcd do.
func (k key) path() string { return k.namespace + "/" + k.name }

// object is one state of an object. It never changes.
type object struct {
	key
	rev    uint64
	uid    string
	fields map[string]any
}

// change is one revision: before is nil for a new object, after for a deletion.
type change struct {
	rev           uint64
	before, after *object
}

// store has the objects and their history, as etcd has them.
type store struct {
	rev, compacted uint64
	uids           int // never reset: a rollback repeats no UID
	objects        map[key]*object
	history        []change
	// sorted is the last result of at: the pages of a list follow each other.
	sorted struct {
		of      schema.GroupResource
		rev     uint64
		objects []*object
	}
}

// put stores a new state. It replaces fields that the API server sets.
func (s *store) put(k key, fields map[string]any) {
	before := s.objects[k]
	s.rev++
	after := &object{key: k, rev: s.rev}
	metadata := maps.Clone(metadataOf(fields))
	switch given, _ := metadata["uid"].(string); {
	case before != nil:
		after.uid = before.uid
	case given != "":
		after.uid = given
	default:
		s.uids++
		after.uid = "uid-" + strconv.Itoa(s.uids)
	}
	metadata["uid"] = after.uid
	after.fields = withMetadata(fields, metadata, s.rev)
	s.objects[k] = after
	s.history = append(s.history, change{s.rev, before, after})
}

// remove deletes an object. It reports whether there was one.
func (s *store) remove(k key) bool {
	before := s.objects[k]
	if before == nil {
		return false
	}
	s.rev++
	delete(s.objects, k)
	s.history = append(s.history, change{s.rev, before, nil})
	return true
}

// rollBack restores the state of a revision.
func (s *store) rollBack(rev uint64) {
	s.objects = s.stateAt(rev)
	s.history = s.history[:s.after(rev)]
	s.rev, s.compacted, s.sorted.objects = rev, min(s.compacted, rev), nil
}

// after returns the index of the first change after a revision.
func (s *store) after(rev uint64) int {
	n, _ := slices.BinarySearchFunc(s.history, rev+1, func(c change, rev uint64) int { return cmp.Compare(c.rev, rev) })
	return n
}

func (s *store) stateAt(rev uint64) map[key]*object {
	state := make(map[key]*object)
	for _, c := range s.history[:s.after(rev)] {
		if c.after == nil {
			delete(state, c.before.key)
		} else {
			state[c.after.key] = c.after
		}
	}
	return state
}

// at returns the objects of a resource at a revision, sorted by path.
func (s *store) at(of schema.GroupResource, rev uint64) []*object {
	if s.sorted.objects != nil && s.sorted.of == of && s.sorted.rev == rev {
		return s.sorted.objects
	}
	state := s.objects
	if rev != s.rev {
		state = s.stateAt(rev)
	}
	all := []*object{}
	for k, o := range state {
		if k.of == of {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *object) int { return cmp.Compare(a.path(), b.path()) })
	s.sorted.of, s.sorted.rev, s.sorted.objects = of, rev, all
	return all
}

func metadataOf(fields map[string]any) map[string]any {
	metadata, _ := fields["metadata"].(map[string]any)
	return metadata
}

// withMetadata returns a copy of the fields of an object with other metadata at a revision. It
// changes metadata.
func withMetadata(fields, metadata map[string]any, rev uint64) map[string]any {
	metadata["resourceVersion"] = strconv.FormatUint(rev, 10)
	fields = maps.Clone(fields)
	fields["metadata"] = metadata
	return fields
}
