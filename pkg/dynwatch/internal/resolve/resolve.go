package resolve

import (
	"errors"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
)

// settleTwin decides about a resource of which it cannot be found out whether it has
// an entry already. One API server has both names of a storage: if it continues to
// report one, and not the other, they are not one storage.
func (t *Resolver) settleTwin(err error) error {
	if !errors.Is(err, catalog.ErrAliasUnknown) {
		t.aliasUnknownSince = time.Time{}
		return err
	}
	if t.aliasUnknownSince.IsZero() {
		t.aliasUnknownSince = time.Now()
	}
	patience := t.Timing.Unserved
	if errors.Is(err, catalog.ErrAliasDenied) {
		patience = t.Timing.Withdrawn // it is an outage rather than another API server
	}
	if time.Since(t.aliasUnknownSince) < patience {
		return err
	}
	t.Logger.Warn("alias not checked; its API server does not answer", "err", err)
	return nil
}
