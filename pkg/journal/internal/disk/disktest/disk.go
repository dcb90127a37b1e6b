// Package disktest is a simulated disk for tests of the log. It keeps apart what a program wrote
// and what a power loss would leave, and fails on request.
package disktest

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/informd/informd/pkg/journal/internal/disk"
)

// ErrPowerLost is the error of every call between a power loss and [Disk.Restart].
var ErrPowerLost = errors.New("simulated disk: the power is lost")

// pageSize is what is written to the disk as a whole. It is small so that short tests have many
// pages.
const pageSize = 512

// Disk is a [disk.Dir] in memory. Its methods may be called concurrently.
//
// A power loss keeps any subset of the pages that were written and not synced, and any subset of
// the names that were changed since the last sync of the directory. What was synced stays.
type Disk struct {
	mu      sync.Mutex
	rand    *rand.Rand
	names   map[string]*inode // as the program sees them
	durable map[string]*inode // after a power loss
	pending []change          // of names, since the last sync
	life    int               // of open files; a power loss ends it
	off     bool
	calls   int // that change something
	faults  Faults
	used    uint64
}

// Faults are what goes wrong. The zero value is a disk without faults.
type Faults struct {
	// PowerAfter is the number of changing calls after which the power is lost, within the next
	// one; 0 is never.
	PowerAfter int
	// Size is the size of the disk in bytes; 0 is without limit.
	Size uint64
	// Before is called before each call, without a lock. Its error is that of the call. It may
	// block, as a disk that does not answer.
	Before func(call, name string) error
	// SyncFails makes syncs of files fail. The system then drops what was not written, as Linux
	// does, and later syncs succeed.
	SyncFails func(name string) bool
}

// On makes f the beginning of each call of that name, as Faults.Before.
func On(call string, f func() error) Faults {
	return Faults{Before: func(name, _ string) error {
		if name != call {
			return nil
		}
		return f()
	}}
}

type change struct {
	from, to string // a rename; from is empty for a new file, to for a removed one
	file     *inode
}

// inode is a file, whatever its names.
type inode struct {
	data, synced []byte
	dirty        map[int]struct{} // pages
}

// New returns an empty disk. Equal seeds lose the same at equal calls.
func New(seed uint64) *Disk {
	return &Disk{
		rand:  rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // of a test
		names: map[string]*inode{}, durable: map[string]*inode{},
	}
}

// Set replaces the faults. The count of calls begins at 0.
func (d *Disk) Set(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults, d.calls = f, 0
}

// PowerLoss loses what was not synced. Files that were open are unusable.
func (d *Disk) PowerLoss() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lose()
}

// Restart ends a power loss, and removes the faults.
func (d *Disk) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.off {
		d.lose()
	}
	d.off, d.faults, d.calls = false, Faults{}, 0
}

// lose decides what survives.
func (d *Disk) lose() {
	if d.off {
		return
	}
	for _, c := range d.pending {
		if d.rand.IntN(2) == 0 {
			continue
		}
		switch {
		case c.to == "":
			delete(d.durable, c.from)
		case c.from == "":
			d.durable[c.to] = c.file
		default:
			d.durable[c.to] = c.file
			delete(d.durable, c.from)
		}
	}
	done := map[*inode]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.durable)) {
		if f := d.durable[name]; !done[f] {
			done[f] = true
			f.lose(d.rand)
		}
	}
	d.names, d.pending, d.used = maps.Clone(d.durable), nil, 0
	for f := range done {
		d.used += uint64(len(f.data))
	}
	d.off = true
	d.life++
}

// lose keeps some of the pages that were not synced.
func (f *inode) lose(r *rand.Rand) {
	size := len(f.synced)
	if less, more := min(size, len(f.data)), max(size, len(f.data)); less != more {
		switch r.IntN(3) {
		case 0:
			size = less
		case 1:
			size = more
		default:
			size = less + r.IntN(more-less+1)
		}
	}
	left := make([]byte, size)
	copy(left, f.synced)
	for _, page := range slices.Sorted(maps.Keys(f.dirty)) {
		from, to := page*pageSize, min((page+1)*pageSize, size, len(f.data))
		if r.IntN(2) == 0 && from < to {
			copy(left[from:to], f.data[from:to])
		}
	}
	f.data, f.synced, f.dirty = slices.Clone(left), left, map[int]struct{}{}
}

// Flip changes one bit of a file, of what was synced too.
func (d *Disk) Flip(name string, bit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	for _, bytes := range [][]byte{f.data, f.synced} {
		if bit/8 < len(bytes) {
			bytes[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// Cut removes the last bytes of a file, of what was synced too.
func (d *Disk) Cut(name string, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	f.data = f.data[:max(0, len(f.data)-bytes)]
	f.synced = f.synced[:min(len(f.synced), len(f.data))]
}

// Content returns a copy of a file, nil if there is none.
func (d *Disk) Content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return slices.Clone(f.data)
	}
	return nil
}

// Clone returns a disk of the same content without faults, with everything synced.
func (d *Disk) Clone(seed uint64) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	other := New(seed)
	for name, f := range d.names {
		other.names[name] = &inode{data: slices.Clone(f.data), synced: slices.Clone(f.data), dirty: map[int]struct{}{}}
		other.used += uint64(len(f.data))
	}
	other.durable = maps.Clone(other.names)
	return other
}

// do makes a call.
func (d *Disk) do(name, file string, changes bool, call func() error) error {
	d.mu.Lock()
	before := d.faults.Before
	d.mu.Unlock()
	if before != nil {
		if err := before(name, file); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if changes && !d.off {
		if d.calls++; d.faults.PowerAfter > 0 && d.calls > d.faults.PowerAfter {
			d.lose()
		}
	}
	if d.off {
		return ErrPowerLost
	}
	return call()
}

// Create implements [disk.Dir].
func (d *Disk) Create(name string) (f disk.File, err error) {
	err = d.do("create", name, true, func() error {
		if d.names[name] != nil {
			return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
		}
		created := &inode{dirty: map[int]struct{}{}}
		d.names[name] = created
		d.pending = append(d.pending, change{to: name, file: created})
		f = &file{disk: d, inode: created, name: name, life: d.life}
		return nil
	})
	return f, err
}

// Open implements [disk.Dir].
func (d *Disk) Open(name string) (f disk.File, err error) {
	err = d.do("open", name, false, func() error {
		found, err := d.find("open", name)
		if err == nil {
			f = &file{disk: d, inode: found, name: name, life: d.life}
		}
		return err
	})
	return f, err
}

func (d *Disk) find(call, name string) (*inode, error) {
	if f := d.names[name]; f != nil {
		return f, nil
	}
	return nil, &fs.PathError{Op: call, Path: name, Err: fs.ErrNotExist}
}

// Rename implements [disk.Dir].
func (d *Disk) Rename(from, to string) error {
	return d.do("rename", from, true, func() error {
		f, err := d.find("rename", from)
		if err != nil {
			return err
		}
		if replaced := d.names[to]; replaced != nil {
			d.used -= uint64(len(replaced.data))
		}
		delete(d.names, from)
		d.names[to] = f
		d.pending = append(d.pending, change{from: from, to: to, file: f})
		return nil
	})
}

// Remove implements [disk.Dir].
func (d *Disk) Remove(name string) error {
	return d.do("remove", name, true, func() error {
		f, err := d.find("remove", name)
		if err != nil {
			return err
		}
		delete(d.names, name)
		d.used -= uint64(len(f.data))
		d.pending = append(d.pending, change{from: name, file: f})
		return nil
	})
}

// Names implements [disk.Dir].
func (d *Disk) Names() (names []string, err error) {
	err = d.do("names", "", false, func() error {
		names = slices.Collect(maps.Keys(d.names))
		return nil
	})
	return names, err
}

// Sync implements [disk.Dir].
func (d *Disk) Sync() error {
	return d.do("sync", "", true, func() error {
		d.durable, d.pending = maps.Clone(d.names), nil
		return nil
	})
}
