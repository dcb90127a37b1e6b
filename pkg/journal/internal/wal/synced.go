package wal

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
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

// noteSynced writes up to where all is synced, at first into a new file. On a full disk the place before stays.
func (l *Log) noteSynced(up place) error {
	b := append(make([]byte, 0, syncedSize), l.id[:]...)
	b = binary.LittleEndian.AppendUint32(b, up.segment)
	b = binary.LittleEndian.AppendUint64(b, uint64(up.offset))
	b = binary.LittleEndian.AppendUint32(b, record.Checksum(b))
	first := l.noting == nil
	if first {
		if err := disk.Remove(l.dir, syncedFile); err != nil {
			return err
		}
		f, err := l.dir.Create(syncedFile)
		if err != nil {
			return unlessFull(err)
		}
		l.noting = f
	}
	_, err := l.noting.WriteAt(b, 0)
	l.written.Add(syncedSize)
	if first && err == nil {
		err = l.noting.Sync()
	}
	return unlessFull(err)
}

func unlessFull(err error) error {
	if disk.IsFull(err) {
		return nil
	}
	return err
}

// readSynced reads what an earlier process has noted. What is not whole, or of another log, says
// nothing.
func (l *Log) readSynced(all []*found) error {
	b, err := disk.Read(l.dir, syncedFile, 0, syncedSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(b) < syncedSize || record.Checksum(b[:28]) != binary.LittleEndian.Uint32(b[28:]) {
		return err
	}
	known := slices.ContainsFunc(all, func(f *found) bool { return !f.headless })
	if !known || l.id == [16]byte(b) {
		l.before = place{binary.LittleEndian.Uint32(b[16:]), int64(binary.LittleEndian.Uint64(b[20:]))}
	}
	if l.before.offset <= segment.HeaderSize {
		l.before.offset = 0 // an empty segment may be gone, or have been begun again
	}
	return nil
}
