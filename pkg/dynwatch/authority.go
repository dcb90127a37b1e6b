package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// unconfirmed is an [errNotServed] that only a 404 says. No document confirms it, so the
// objects stay known.
type unconfirmed struct {
	why string
	// outage: the list of groups cannot be read either.
	outage bool
}

// Error says which 404 it was, and what does not confirm it.
func (u *unconfirmed) Error() string { return fmt.Sprintf("%v, unconfirmed: %s", errNotServed, u.why) }

// Unwrap returns errNotServed.
func (*unconfirmed) Unwrap() error { return errNotServed }

func isUnconfirmed(err error) bool {
	_, is := errors.AsType[*unconfirmed](err)
	return is
}

// isOutage reports whether err is an [unconfirmed] of an API server that does not list its
// groups either.
func isOutage(err error) bool {
	u, is := errors.AsType[*unconfirmed](err)
	return is && u.outage
}

// groupAbsent says what a 404 for a group means: errNotServed if the API server lists
// its groups without it, else an [unconfirmed].
func (d *discovery) groupAbsent(ctx context.Context, group string) error {
	names, err := d.groupNames(ctx)
	switch {
	case err != nil:
		return &unconfirmed{fmt.Sprintf("the API server answers 404 for group %q, and its list of groups cannot be read: %v", group, err), true}
	case slices.Contains(names, group):
		return &unconfirmed{why: fmt.Sprintf("the API server answers 404 for group %q and lists it among its groups", group)}
	default:
		return fmt.Errorf("%w: the API server has no group %q", errNotServed, group)
	}
}

// groupNames lists the groups but the core group.
func (d *discovery) groupNames(ctx context.Context) ([]string, error) {
	var all metav1.APIGroupList
	if err := d.get(ctx, "APIGroupList", &all, "/apis"); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(all.Groups))
	for i := range all.Groups {
		names = append(names, all.Groups[i].Name)
	}
	return names, nil
}

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
		return ruling{open: "its CustomResourceDefinition exists"}
	case err == nil && t.nudge.custom.Load():
		return ruling{after: t.timing.unserved, at: rv}
	case err == nil, apierrors.IsForbidden(err):
		return t.ruleElsewhere(ctx)
	}
	if absent := t.clients.discovery.groupAbsent(ctx, customResourceDefinitions().Group); errors.Is(absent, errNotServed) && !isUnconfirmed(absent) {
		return t.ruleElsewhere(ctx) // this API server has no custom resources
	}
	return ruling{open: fmt.Sprintf("its CustomResourceDefinition cannot be read: %v", err)}
}

// ruleElsewhere asks over a new connection, which can reach another API server. During an
// upgrade one of two API servers can lack a group.
func (t *target) ruleElsewhere(ctx context.Context) ruling {
	_, err := resolve(ctx, t.clients.fresh, t.spec)
	switch {
	case err == nil, !errors.Is(err, errNotServed):
		return ruling{open: fmt.Sprintf("another connection does not confirm it (%v)", err)}
	case isUnconfirmed(err):
		return ruling{open: "another connection does not confirm it: " + err.Error()}
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
	if absent := t.clients.discovery.groupAbsent(ctx, apiServices().Group); errors.Is(absent, errNotServed) && !isUnconfirmed(absent) {
		return ""
	}
	return fmt.Sprintf("its APIServices cannot be read: %v", err)
}

// definition asks etcd whether a CustomResourceDefinition exists, and returns the
// revision of the answer.
func (s *served) definition(ctx context.Context, name string) (exists bool, rv uint64, err error) {
	_, exists, rv, err = s.watches[0].watch.source.look(ctx, "", name, 0)
	if err == nil && rv == 0 {
		err = fmt.Errorf("list customresourcedefinitions: %w", errInexact)
	}
	return exists, rv, err
}

// automanaged marks the APIServices that the API server makes for what it serves itself.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// aggregates returns the name of an APIService that hands a group to another API server,
// empty if there is none.
func (s *served) aggregates(ctx context.Context, group string) (name string, err error) {
	_, err = s.watches[1].watch.listAt(ctx, 0, func(o *metadataObject) {
		_, of, _ := strings.Cut(o.name, ".") // <version>.<group>
		if _, local := o.labels[automanaged]; of == group && !local {
			name = o.name
		}
	})
	return name, err
}
