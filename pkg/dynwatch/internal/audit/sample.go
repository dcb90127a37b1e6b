package audit

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// An audit compares the index with a list, and both can come from one wrong watch cache:
// since Kubernetes 1.34 consistent lists, and lists at an exact revision, are served by it
// (k8s.io/apiserver pkg/storage/cacher/delegator.go). A list of one name at an exact
// revision is not recursive and always served by etcd (Cacher.ShouldDelegateExactRV in
// cacher.go, and CacheDelegator.GetList). So each audit reads some names that way, at the
// revision of its list, and compares them with what the list showed. A difference convicts
// the API server.
//
// Objects that neither a list nor a watch shows have no name to ask for. Two facts help:
// names that were deleted lately are asked for, as many return; and an API server that
// finds its own cache wrong (feature DetectCacheInconsistency, every 5 to 8 minutes)
// serves lists at an exact revision from etcd from then on. Therefore the list of an audit
// is at an exact revision.

// sampleListed is how many objects of a list are read from etcd.
const sampleListed = 32

// Wrong is an object as a list showed it and as etcd holds it.
type Wrong struct {
	Listed listwatch.Listed
	Object frame.Object
	There  bool
	// asked: etcd was asked whether the deletion is behind the watch.
	asked bool
}

// sample is what an audit compares with etcd. It belongs to the goroutine that lists.
type sample struct {
	// recent are names that had events before the list, with what it shows of them.
	recent map[string]listwatch.Listed
	// Listed are objects of the list, each with the same chance.
	listed []listwatch.Listed
	seen   int
	// Wrong are those that etcd holds in another state.
	Wrong []*Wrong
}

func newSample(recent []listwatch.Listed) sample {
	s := sample{recent: make(map[string]listwatch.Listed)}
	for _, n := range recent {
		s.recent[index.Key(n.Namespace, n.Name)] = n
	}
	return s
}

// take notes a listed object.
func (s *sample) take(d listwatch.Listed) {
	if _, ok := s.recent[index.Key(d.Namespace, d.Name)]; ok {
		s.recent[index.Key(d.Namespace, d.Name)] = d
		return
	}
	s.seen++
	if len(s.listed) < sampleListed {
		s.listed = append(s.listed, d)
	} else if i := rand.IntN(s.seen); i < sampleListed { //nolint:gosec // a sample, not a secret
		s.listed[i] = d
	}
}

// compare reads the sample from etcd at the revision of the list. A server that cannot
// read exact revisions is not compared.
func (s *sample) compare(ctx context.Context, source *listwatch.Source, rv uint64) error {
	for _, d := range s.recent {
		s.listed = append(s.listed, d)
	}
	for _, d := range s.listed {
		o, there, err := source.MatchAt(ctx, d.Namespace, d.Name, rv)
		if listwatch.Expired(err) || listwatch.Unsupported(err) {
			return nil // there is nothing to compare with
		}
		if _, bad := errors.AsType[*frame.Malformed](err); bad {
			continue // it is in no list either
		}
		if err != nil {
			return err
		}
		if !same(d, &o, there) {
			s.Wrong = append(s.Wrong, &Wrong{Listed: d, Object: o, There: there})
		}
	}
	return nil
}

// Passed reports whether the watch has passed the state that etcd holds of an object.
func (r *Run) Passed(ctx context.Context, source *listwatch.Source, w *Wrong, cursor uint64) (bool, error) {
	switch {
	case cursor >= r.RV:
		return true, nil
	case w.There:
		return cursor >= w.Object.ResourceVersion, nil
	case w.asked:
		return false, nil
	}
	w.asked = true
	_, there, err := source.MatchAt(ctx, w.Listed.Namespace, w.Listed.Name, cursor)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		return false, nil
	}
	return !there, err
}
