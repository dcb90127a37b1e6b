package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/metadatawatch"
)

// informd announces a deletion only on the word of an authority. These are all of them:
//
//	what was deleted      authority                                            when
//	an object             a DELETED frame of the watch, of the object's UID    at once
//	an object             a consistent list, not older than the object's last  once the watch has passed
//	                      event, does not hold it                              the list
//	a custom resource     API discovery lists the group without it, and a      the definition has been
//	                      list of CustomResourceDefinitions does not hold its  gone for timing.unserved
//	                      definition
//	an aggregated or a    API discovery lists the group without it, also over  the answers have been so
//	built-in resource     a new connection each time; no APIService hands the  for timing.withdrawn
//	                      group to another API server
//	a resource, if the    API discovery lists the group without it, also over  the answers have been so
//	definitions cannot    a new connection each time                           for timing.withdrawn
//	be read
//	a namespace, if its   the API server answers that the Namespace does not   at once
//	objects are           exist: an empty list of that one name, or a 404 as
//	forbidden             a Status about that Namespace
//
// A 404 is no authority. Proxies answer it for a missing route, an API server that starts
// answers it, and one of two API servers answers it during an upgrade. Nor is an error,
// a document of another kind, or a definition that exists and serves no version: the
// objects are in etcd still.

// ruling is what the authorities say of a resource that discovery does not list.
type ruling struct {
	// after is how long all rulings must have been like this one.
	after time.Duration
	// at is a revision from after the resource was removed, 0 if none is known.
	at uint64
	// last: ruleLast must agree, too.
	last bool
	// open says why the resource does not count as removed; empty if it does.
	open string
}

// rule asks the authorities about a resource that discovery does not list.
func (t *target) rule(ctx context.Context) ruling {
	if t.spec.group == "" {
		return t.ruleElsewhere(ctx)
	}
	name := t.spec.resource + "." + t.spec.group
	exists, rv, err := t.served.definition(ctx, name)
	switch {
	case err == nil && exists:
		return ruling{open: "the CustomResourceDefinition of the resource exists"}
	case err == nil && t.nudge.custom.Load():
		return ruling{after: t.timing.unserved, at: rv}
	case err == nil, apierrors.IsForbidden(err):
		return t.ruleElsewhere(ctx)
	}
	if absent := t.clients.Discovery.GroupAbsent(ctx, customResourceDefinitions().Group); errors.Is(absent, kube.ErrNotServed) && !kube.IsUnconfirmed(absent) {
		return t.ruleElsewhere(ctx) // this API server has no custom resources
	}
	return ruling{open: fmt.Sprintf("the CustomResourceDefinition of the resource is unreadable: %v", err)}
}

// ruleElsewhere asks over a new connection, which can reach another API server. During an
// upgrade one of two API servers can lack a group.
func (t *target) ruleElsewhere(ctx context.Context) ruling {
	_, err := resolve(ctx, t.clients.Fresh, t.spec)
	switch {
	case err == nil, !errors.Is(err, kube.ErrNotServed):
		return ruling{open: fmt.Sprintf("another connection does not confirm the removal (%v)", err)}
	case kube.IsUnconfirmed(err):
		return ruling{open: "another connection does not confirm the removal: " + err.Error()}
	}
	return ruling{after: t.timing.withdrawn, last: true}
}

// ruleLast is the last question before a resource that is not a custom one counts as
// removed: an APIService that hands its group to another API server brings it back.
func (t *target) ruleLast(ctx context.Context, denial error) (open string) {
	if _, only := errors.AsType[*unknownResource](denial); only {
		return "" // the group is served, without the resource
	}
	service, err := t.served.aggregates(ctx, t.spec.group)
	switch {
	case err == nil && service != "":
		return fmt.Sprintf("APIService %s exists", service)
	case err == nil, apierrors.IsForbidden(err):
		return ""
	}
	if absent := t.clients.Discovery.GroupAbsent(ctx, apiServices().Group); errors.Is(absent, kube.ErrNotServed) && !kube.IsUnconfirmed(absent) {
		return ""
	}
	return fmt.Sprintf("the APIServices of the group are unreadable: %v", err)
}

// definition asks etcd whether a CustomResourceDefinition exists, and returns the
// revision of the answer.
func (s *served) definition(ctx context.Context, name string) (exists bool, rv uint64, err error) {
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
func (s *served) aggregates(ctx context.Context, group string) (name string, err error) {
	_, err = s.watches[1].watch.ListAt(ctx, 0, func(o *metadatawatch.Object) {
		_, of, _ := strings.Cut(o.Name, ".") // <version>.<group>
		if _, local := o.Labels[automanaged]; of == group && !local {
			name = o.Name
		}
	})
	return name, err
}
