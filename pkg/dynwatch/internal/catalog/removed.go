package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// informd announces a deletion only on the word of an authority. These are all of them:
//
//	what was deleted      authority                                            when
//	an object             a DELETED frame of the watch, of the object's UID    at once
//	an object             a consistent list, not older than the object's last  once the watch has passed
//	                      event, does not hold it                              the list
//	a custom resource     API discovery lists the group without it, and a      the definition has been
//	                      list of CustomResourceDefinitions does not hold its  gone for 10 s
//	                      definition
//	an aggregated or a    API discovery lists the group without it, also over  the answers have been so
//	built-in resource     a new connection each time; no APIService hands the  for 10 min
//	                      group to another API server
//	a resource, if the    API discovery lists the group without it, also over  the answers have been so
//	definitions cannot    a new connection each time                           for 10 min
//	be read
//	a namespace, if its   a list of that one name does not hold the Namespace  at once
//	objects are
//	forbidden
//
// A 404 is no authority. Proxies answer it for a missing route, an API server that starts
// answers it, and one of two API servers answers it during an upgrade. Nor is an error,
// a document of another kind, or a definition that exists and serves no version: the
// objects are in etcd still.

// ruling is what the authorities say of a resource that discovery does not list.
type ruling struct {
	// at is a revision from after the resource was removed, 0 if none is known.
	at uint64
	// last: it is no custom resource, so lastRuling must agree, too.
	last bool
	// open says why the resource does not count as removed; empty if it does.
	open string
}

// Absence is what is known of a resource while discovery does not list it.
type Absence struct {
	// Since is when the authorities began to agree that the resource was removed, and At
	// the newest revision at which one did, 0 if none named a revision.
	Since time.Time
	At    uint64
}

// Confirm asks the authorities again, after discovery has denied the resource. It returns when
// the resource counts as removed, if they agree until then. If one disagrees, Confirm begins
// a new absence, and open says why. Custom: the resource is, or was, a custom one.
func (a *Absence) Confirm(ctx context.Context, w *Watcher, of Wanted, custom bool, denial error, p Periods) (due time.Time, open string) {
	r, after := w.rule(ctx, of, custom), p.Unserved
	if r.last {
		after = p.Withdrawn
	}
	if r.last && !a.Since.IsZero() && time.Since(a.Since) >= after {
		r.open = w.lastRuling(ctx, of.Group, denial)
	}
	if r.open != "" {
		*a = Absence{}
		return time.Time{}, r.open
	}
	if a.Since.IsZero() {
		a.Since = time.Now()
	}
	a.At = max(a.At, r.at) // the first authority that agrees may name none
	return a.Since.Add(after), ""
}

// ServedOtherwise reports whether it can be that only the version that is asked for is gone:
// the objects exist then.
func ServedOtherwise(ctx context.Context, d *kube.Discovery, of Wanted) bool {
	if of.Version == "" {
		return false
	}
	of.Version = ""
	_, err := Resolve(ctx, d, of)
	return !errors.Is(err, kube.ErrNotServed) || kube.IsUnconfirmed(err)
}

// rule asks the authorities about a resource that discovery does not list. Custom: it is, or
// was, a custom one.
func (s *Watcher) rule(ctx context.Context, of Wanted, custom bool) ruling {
	if of.Group == "" {
		return s.elsewhere(ctx, of)
	}
	name := of.Resource + "." + of.Group
	exists, rv, err := s.definition(ctx, name)
	switch {
	case err == nil && exists:
		return ruling{open: "the CustomResourceDefinition of the resource exists"}
	case err == nil && custom:
		return ruling{at: rv}
	case err == nil, apierrors.IsForbidden(err):
		return s.elsewhere(ctx, of)
	}
	if absent := s.clients.Discovery.GroupAbsent(ctx, CustomResourceDefinitions().Group); errors.Is(absent, kube.ErrNotServed) && !kube.IsUnconfirmed(absent) {
		return s.elsewhere(ctx, of) // this API server has no custom resources
	}
	return ruling{open: fmt.Sprintf("the CustomResourceDefinition of the resource is unreadable: %v", err)}
}

// elsewhere asks over a new connection, which can reach another API server. During an
// upgrade one of two API servers can lack a group.
func (s *Watcher) elsewhere(ctx context.Context, of Wanted) ruling {
	_, err := Resolve(ctx, s.clients.Fresh, of)
	switch {
	case err == nil, !errors.Is(err, kube.ErrNotServed):
		return ruling{open: fmt.Sprintf("another connection does not confirm the removal (%v)", err)}
	case kube.IsUnconfirmed(err):
		return ruling{open: "another connection does not confirm the removal: " + err.Error()}
	}
	return ruling{last: true}
}

// lastRuling is the last question before a resource that is not a custom one counts as
// removed: an APIService that hands its group to another API server brings it back. Open says
// why the resource does not count as removed.
func (s *Watcher) lastRuling(ctx context.Context, group string, denial error) (open string) {
	if _, only := errors.AsType[*unknownResource](denial); only {
		return "" // the group is served, without the resource
	}
	service, err := s.aggregates(ctx, group)
	switch {
	case err == nil && service != "":
		return fmt.Sprintf("APIService %s exists", service)
	case err == nil, apierrors.IsForbidden(err):
		return ""
	}
	if absent := s.clients.Discovery.GroupAbsent(ctx, APIServices().Group); errors.Is(absent, kube.ErrNotServed) && !kube.IsUnconfirmed(absent) {
		return ""
	}
	return fmt.Sprintf("the APIServices of the group are unreadable: %v", err)
}

// definition asks etcd whether a CustomResourceDefinition exists, and returns the
// revision of the answer.
func (s *Watcher) definition(ctx context.Context, name string) (exists bool, rv uint64, err error) {
	_, exists, rv, err = s.watches[0].watch.Source.Look(ctx, "", name, 0)
	if err == nil && rv == 0 {
		err = fmt.Errorf("list customresourcedefinitions: %w", listwatch.ErrInexact)
	}
	return exists, rv, err
}

// automanaged marks the APIServices that the API server makes for what it serves itself.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// aggregates returns the name of an APIService that hands a group to another API server,
// empty if there is none.
func (s *Watcher) aggregates(ctx context.Context, group string) (name string, err error) {
	_, err = s.watches[1].watch.ListAt(ctx, 0, func(o *listwatch.MetadataObject) {
		_, of, _ := strings.Cut(o.Name, ".") // <version>.<group>
		if _, local := o.Labels[automanaged]; of == group && !local {
			name = o.Name
		}
	})
	return name, err
}
