package wal

import (
	"encoding/binary"
	"errors"
	"io/fs"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
)

// syncedFile says up to where the log was synced: the id of the log, the number of the segment, its
// length, and a CRC32C. So a start tells damage from the end that a crash has cut off.
//
// It is written behind each sync, and synced itself only once: a power loss may leave an older place of this process.
// A place that is there was synced.
const (
	syncedFile = "synced"
	syncedSize = 16 + 4 + 8 + 4
)

// note writes that file.
type note struct {
	store *store
	id    [16]byte  // of the log
	open  disk.File // nil before the first sync
}

// write notes up to where all is synced, at first in a new file. On a full disk the place before stays.
func (n *note) write(up place) error {
	b := append(make([]byte, 0, syncedSize), n.id[:]...)
	b = binary.LittleEndian.AppendUint32(b, up.segment)
	b = binary.LittleEndian.AppendUint64(b, uint64(up.offset))
	b = binary.LittleEndian.AppendUint32(b, record.Checksum(b))
	first := n.open == nil
	if first {
		if err := disk.Remove(n.store.dir, syncedFile); err != nil {
			return err
		}
		f, err := n.store.dir.Create(syncedFile)
		if err != nil {
			return unlessFull(err)
		}
		n.open = f
	}
	_, err := n.open.WriteAt(b, 0)
	n.store.written.Add(syncedSize)
	if first && err == nil {
		err = n.open.Sync()
	}
	return unlessFull(err)
}

func (n *note) close() {
	if n.open != nil {
		_ = n.open.Close()
		n.open = nil
	}
}

// readNote reads what an earlier process has noted. What is not whole says nothing.
func readNote(d disk.Dir) (id [16]byte, up place, err error) {
	b, err := disk.Read(d, syncedFile, 0, syncedSize)
	if errors.Is(err, fs.ErrNotExist) {
		return id, up, nil
	}
	if err != nil || len(b) < syncedSize || record.Checksum(b[:28]) != binary.LittleEndian.Uint32(b[28:]) {
		return id, up, err
	}
	return [16]byte(b), place{binary.LittleEndian.Uint32(b[16:]), int64(binary.LittleEndian.Uint64(b[20:]))}, nil
}
