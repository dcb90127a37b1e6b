package file

import (
	"os"
	"testing"

	"github.com/informd/informd/pkg/sink"
)

// Disk is the disk under a sink, with failures that tests put there. Nil
// functions are the system's own.
type Disk struct {
	Write    func(f *os.File, p []byte) (int, error)
	Sync     func(f *os.File) error
	Truncate func(f *os.File, size int64) error
}

// SetDisk puts a disk under the sink, which no Write may be using.
func SetDisk(t *testing.T, s sink.Sink, d Disk) {
	t.Helper()
	own, ok := s.(*Sink)
	if !ok {
		t.Fatalf("%T is not a file sink", s)
	}
	own.disk = systemDisk()
	if d.Write != nil {
		own.disk.write = d.Write
	}
	if d.Sync != nil {
		own.disk.sync = d.Sync
	}
	if d.Truncate != nil {
		own.disk.truncate = d.Truncate
	}
}
