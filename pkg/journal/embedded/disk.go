package embedded

import (
	"fmt"
	"syscall"
)

const (
	leastReserve = 64 << 20
	mostReserve  = 1 << 30
)

// disk is the room on the file system of the store, in bytes.
type disk struct {
	free  int64 // what this process may use
	total int64
}

// statDisk asks the operating system.
func statDisk(dir string) (disk, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return disk{}, fmt.Errorf("ask for the free space of journal.dir %s: %w", dir, err)
	}
	block := uint64(stat.Bsize)
	return disk{free: int64(stat.Bavail * block), total: int64(stat.Blocks * block)}, nil
}

// reserve is how much of the disk is left free if the configuration does not say.
func (d disk) reserve() int64 {
	return min(max(d.total/50, leastReserve), mostReserve)
}

// limits is how much the server may store.
type limits struct {
	server  int64 // all streams together
	journal int64 // the journal's stream
	others  int64 // all other streams together
}

// limitsFor divides the space: beside the journal there are cursors, checkpoints, large objects and
// dead letters. Used bytes are stored already. The server refuses what exceeds its limits, which
// it handles well. It handles a full disk badly.
func limitsFor(maxBytes, used, reserve int64, d disk) limits {
	beside := max(maxBytes/8, leastReserve)
	room := max(used+d.free-reserve, 1<<20)
	if room >= maxBytes+beside {
		return limits{server: maxBytes + beside, journal: maxBytes, others: beside}
	}
	beside = min(beside, room/8)
	return limits{server: room, journal: max(room-beside, 1<<20), others: beside}
}
