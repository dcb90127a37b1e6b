package journal

import (
	"os"

	"github.com/informd/informd/pkg/journal/internal/disk"
)

// temporaryPrefix begins the names of the directories of temporary journals.
const temporaryPrefix = "informd-memory-"

// OpenTemporary opens a journal that ends with its process, in a new directory below parent, or below
// the system's directory for temporary files if parent is empty. After the start nothing is synced, and
// Close deletes the directory. What killed processes have left below parent is deleted here; their directories are named
// informd-memory-*, too. Dir and Sync of the config are not used, and MaxBytes is 64 MiB by default.
//
// The journal keeps nothing for a cursor that is not open. If it is short of space, it forgets the data
// of objects that all cursors have passed, and their deletions; a new cursor gets those objects without
// Data. When nothing more can go, Append waits for cursors.
func OpenTemporary(parent string, c Config) (*Journal, error) {
	c.temporary = true
	c = c.withDefaults()
	if parent == "" {
		parent = os.TempDir()
	}
	if err := makeDir(parent); err != nil {
		return nil, err
	}
	d, leftover, err := disk.Temporary(parent, temporaryPrefix)
	if leftover != nil {
		c.Logger.Warn("directories of earlier processes not deleted", "dir", parent, "err", leftover, "next", "delete "+temporaryPrefix+"* there that no informd uses")
	}
	if err != nil {
		return nil, err
	}
	c.Dir = d.Path()
	return openIn(d, c)
}
