package dynwatch

import (
	"errors"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// wanted is the resource of a target.
func (s spec) wanted() catalog.Wanted {
	return catalog.Wanted{Group: s.group, Version: s.version, Resource: s.resource, NamespaceKeys: s.namespaceKeys(), Earlier: s.earlier}
}

// source makes the source of a resource as a target wants it. Its objects come in the
// shape that shape returns at the time; a nil filter lets all through.
func (s spec) source(r catalog.Resolved, c *kube.Clients, redactor *frame.Redactor, shape func() *frame.Shape, f *selection.Filter) (*listwatch.Source, error) {
	if s.group != "" || s.resource != "secrets" {
		redactor = nil // there is nothing to hide but what the shape does
	}
	o := listwatch.Options{Clients: c, Redactor: redactor, Shape: shape, Covers: f.Covers}
	if f != nil {
		o.Wants = f.Wants
	}
	return listwatch.New(listwatch.Resource{
		GVR: r.GVR, Kind: r.Kind, Namespaced: r.Namespaced, Name: s.name(), Namespace: s.namespace,
		MetadataOnly: s.mode == Metadata, LabelSelector: s.labelSelector, FieldSelector: s.fieldSelector,
	}, o)
}

// settleTwin decides about a resource of which it cannot be found out whether it has
// an entry already. One API server has both names of a storage: if it goes on to tell
// of one, and nobody of the other, they are not in one.
func (t *target) settleTwin(err error) error {
	if !errors.Is(err, catalog.ErrAliasUnknown) {
		t.untoldSince = time.Time{}
		return err
	}
	if t.untoldSince.IsZero() {
		t.untoldSince = time.Now()
	}
	patience := t.timing.Unserved
	if errors.Is(err, catalog.ErrAliasDenied) {
		patience = t.timing.Withdrawn // it is an outage rather than another API server
	}
	if time.Since(t.untoldSince) < patience {
		return err
	}
	t.logger.Warn("alias not checked; its API server does not answer", "err", err)
	return nil
}
