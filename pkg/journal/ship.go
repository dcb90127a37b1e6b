package journal

import "github.com/informd/informd/pkg/journal/internal/wal"

// The log as a follower copies it: whole files, and the end of the newest one as it grows.
type (
	// Shipping hands out the files, and knows the followers.
	Shipping = wal.Shipping
	// Files lists what a copy of the log consists of.
	Files = wal.Files
	// File is one of them.
	File = wal.File
	// Chunk is a part of a file.
	Chunk = wal.Chunk
	// Following describes the followers of a log.
	Following = wal.Following
)

// ErrNoFile says that a file is not part of the log, or not any more.
var ErrNoFile = wal.ErrNoFile

// Shipping is the log as followers copy it.
func (j *Journal) Shipping() *Shipping { return j.log.Shipping }
