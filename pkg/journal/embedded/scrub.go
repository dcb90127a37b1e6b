package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/informd/informd/pkg/journal/embedded/internal/storefiles"
)

// scrubPause is the time between two blocks of at most 8 MiB, so that the scrub
// takes no more than a small share of the disk.
const scrubPause = 100 * time.Millisecond

// scrub reads all blocks once after a clean start, when nothing but their sizes
// and times was looked at, and compares the checksums: a disk that gives back
// other bits than it got does not change a file's time. It changes nothing; the
// next start repairs.
func (s *Server) scrub(ctx context.Context) {
	ticker := time.NewTicker(min(scrubPause, s.config.tick))
	defer ticker.Stop()
	streams, err := s.store.All()
	if err != nil {
		s.logger.Warn("journal blocks not verified; retrying later", "dir", s.config.Dir, "err", err)
		return
	}
	for name, files := range streams {
		indexes := files.Blocks()
		reader := &storefiles.BlockReader{Stream: name}
		for n, index := range indexes {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			s.scrubBlock(reader, index, n == len(indexes)-1)
		}
	}
}

// scrubBlock reads one block. The server replaces a block as a whole or appends
// to the last one, so that what was read is the file of one moment, but for an
// unfinished record at the end of the last.
func (s *Server) scrubBlock(reader *storefiles.BlockReader, index uint32, last bool) {
	report, err := reader.Check(filepath.Join(s.store.Messages(reader.Stream), storefiles.BlockName(index)), index, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return // all its messages were removed
	case err != nil:
		s.logger.Warn("journal block not verified; retrying later", "stream", reader.Stream, "path", storefiles.BlockName(index), "err", err)
		return
	case report.Bad == 0, report.Torn && last:
		return
	}
	text := fmt.Sprintf("message block damaged (stream %s) (path %s)", reader.Stream, storefiles.BlockName(index))
	s.logger.Error("journal damaged; restart informd to repair it", "dir", s.config.Dir, "reason", text)
	s.addDamage(text)
	if err := s.record(false); err != nil {
		s.logger.Warn("journal damage not recorded", "dir", s.config.Dir, "err", err)
	}
}
