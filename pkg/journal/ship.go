package journal

import (
	"context"
	"time"

	"github.com/informd/informd/pkg/journal/internal/wal"
)

// The log as a follower copies it: whole files, and the end of the newest one as it grows.
type (
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

// Files returns the files of now.
func (j *Journal) Files() (Files, error) { return j.log.Shipping.Files() }

// Chunk returns at most a mebibyte of a file, from an offset on. At the end of the newest segment it
// waits for more, at most for patience. The error is [ErrNoFile] if compaction has replaced the file.
func (j *Journal) Chunk(ctx context.Context, name string, offset int64, patience time.Duration) (Chunk, error) {
	return j.log.Shipping.Chunk(ctx, name, offset, patience)
}

// Acknowledge notes that a follower has a copy of the log up to an offset of a segment. New objects and
// control events then wait for that follower before a sink reads them, until [Journal.Release].
func (j *Journal) Acknowledge(follower, name string, offset int64) {
	j.log.Shipping.Acknowledge(follower, name, offset)
}

// Release no longer waits for a follower. Before, nobody may count on its copy any more.
func (j *Journal) Release(follower string) { j.log.Shipping.Release(follower) }

// Following returns the followers of now. Late is one that holds sinks up for longer than patience, or lacks
// something and has not asked for longer than silence.
func (j *Journal) Following(patience, silence time.Duration) Following {
	return j.log.Shipping.Following(patience, silence)
}

// Settle waits until the followers have everything that was written before, or ctx ends. It returns those that
// lack something.
func (j *Journal) Settle(ctx context.Context) (behind []string) { return j.log.Shipping.Settle(ctx) }
