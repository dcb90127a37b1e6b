package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
)

const (
	// portion is about how many bytes are written and synced at a time. Between
	// portions Write looks at its context.
	portion = 4 << 20
	// maxIdleBuffer is the most memory that is kept from one Write to the next: more than
	// a batch takes, but for large events.
	maxIdleBuffer = 2 << 20
)

// Sink appends events to a file that rotates.
type Sink struct {
	log         *log
	compression compress.Method
	compressor  *compressor // the last one; nil if older files stay as they are
	format      sink.Format
	maxBytes    int64
	disk        disk
	// buffer holds the lines of a portion, ends where each of them ends.
	buffer []byte
	ends   []int
}

// disk is what can fail halfway. Tests put failures there.
type disk struct {
	write    func(f *os.File, p []byte) (int, error)
	sync     func(f *os.File) error
	truncate func(f *os.File, size int64) error
}

func systemDisk() disk {
	return disk{write: (*os.File).Write, sync: (*os.File).Sync, truncate: (*os.File).Truncate}
}

// Write appends the batch and syncs it to stable storage. After an error n
// counts the events that are on stable storage; every error can pass (a full
// disk, say) and none is permanent. The end of ctx is seen between portions of a
// few MiB: a disk that hangs holds Write up, as the kernel cannot be interrupted
// there.
func (s *Sink) Write(ctx context.Context, batch []event.Event) (int, error) {
	defer s.release()
	n := 0
	for n < len(batch) {
		if err := ctx.Err(); err != nil {
			return n, fmt.Errorf("write file %s: %w", s.log.path, err)
		}
		written, err := s.portion(ctx, batch[n:])
		n += written
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// portion writes as many leading events as make one, and returns how many are on
// stable storage; none, without an error, if it made room for the first.
func (s *Sink) portion(ctx context.Context, batch []event.Event) (int, error) {
	if err := s.log.ensure(); err != nil {
		return 0, err
	}
	s.encode(batch)
	if len(s.ends) > 0 {
		return s.append()
	}
	if s.compressor != nil {
		s.compressor.rest.Store(true) // all that a new config finds may take hours
		if err := s.compressor.wait(ctx); err != nil {
			return 0, fmt.Errorf("rotate file %s: %w", s.log.path, err)
		}
	}
	if err := s.log.rotate(); err != nil {
		return 0, err
	}
	s.compressOlder()
	return 0, nil
}

// compressOlder compresses the older files in the background, if they are to be.
func (s *Sink) compressOlder() {
	if s.compression.Suffix() != "" {
		s.compressor = startCompressor(s.log, s.compression)
	}
}

// encode fills the buffer with the lines of as many leading events as make a
// portion and as the current file has room for; none if the first does not fit.
func (s *Sink) encode(batch []event.Event) {
	s.buffer, s.ends = s.buffer[:0], s.ends[:0]
	for i := range batch {
		s.buffer = s.format.AppendLine(s.buffer, &batch[i])
		alone := s.log.size == 0 && i == 0
		if s.log.size+int64(len(s.buffer)) > s.maxBytes && !alone {
			return
		}
		s.ends = append(s.ends, len(s.buffer))
		if len(s.buffer) >= portion {
			return
		}
	}
}

// append writes the encoded lines and returns how many of them are on stable
// storage. It leaves no half line behind.
func (s *Sink) append() (int, error) {
	lines := s.buffer[:s.ends[len(s.ends)-1]]
	written, err := s.disk.write(s.log.file, lines)
	if err == nil {
		err = s.disk.sync(s.log.file)
		if err == nil {
			s.log.size += int64(len(lines))
			return len(s.ends), nil
		}
		// After a failed sync the kernel may have given up the lines and call
		// the next sync a success: they have to be written once more.
		written = 0
	}
	whole, end := 0, 0
	for whole < len(s.ends) && s.ends[whole] <= written {
		end = s.ends[whole]
		whole++
	}
	err = s.explain(err)
	if cutErr := s.cut(s.log.size + int64(end)); cutErr != nil {
		// It is cut when the file is opened again, at the next Write.
		return 0, errors.Join(err, cutErr, s.log.close())
	}
	return whole, err
}

// cut takes all behind size away, and syncs what stays.
func (s *Sink) cut(size int64) error {
	if err := s.disk.truncate(s.log.file, size); err != nil {
		return fmt.Errorf("cut unfinished line: %w", err)
	}
	if err := s.disk.sync(s.log.file); err != nil {
		return fmt.Errorf("sync earlier lines: %w", err)
	}
	s.log.size = size
	return nil
}

func (s *Sink) explain(err error) error {
	err = cause(err)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("write file %s: the disk is full; free space, or lower maxBytes or maxFiles: %w", s.log.path, err)
	case errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("write file %s: the disk quota is used up: %w", s.log.path, err)
	default:
		return fmt.Errorf("write file %s: %w", s.log.path, err)
	}
}

// release gives back what a large batch took.
func (s *Sink) release() {
	if cap(s.buffer) > maxIdleBuffer {
		s.buffer = nil
	}
}

// Close closes the file and gives up the lock. All that Write acknowledged is on
// stable storage already. Close stops a compression; the next Open starts it again.
func (s *Sink) Close(ctx context.Context) error {
	var err error
	if s.compressor != nil {
		s.compressor.end()
		err = s.compressor.wait(ctx)
	}
	return errors.Join(err, s.log.close())
}
