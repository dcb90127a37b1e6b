package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/informd/informd/pkg/journal/internal/record"
)

// chunk is how much a scanner reads at a time, in bytes. A larger record is read as a whole.
const chunk = 1 << 20

// Scanner reads the records of a segment one after the other. It is for one goroutine at a time.
type Scanner struct {
	from        io.ReaderAt
	offset, end int64  // of buffer in the file, and where reading ends
	buffer      []byte // not consumed yet
}

// NewScanner reads records from an offset up to end.
func NewScanner(from io.ReaderAt, offset, end int64) *Scanner {
	return &Scanner{from: from, offset: offset, end: end}
}

// Next returns the next record, and where it begins. Its bytes belong to the caller and are not
// overwritten. The error is [io.EOF] at the end, wraps [record.ErrShort] if the file ends inside of
// a record, wraps [record.ErrInvalid] if there is none, or is that of the file. After an error the
// scanner is where it was.
func (s *Scanner) Next() (r record.Record, at int64, err error) {
	at = s.offset
	for {
		r, size, err := record.Parse(s.buffer)
		if err == nil {
			s.offset, s.buffer = s.offset+int64(size), s.buffer[size:]
			return r, at, nil
		}
		if !errors.Is(err, record.ErrShort) {
			return r, at, fmt.Errorf("at byte %d: %w", at, err)
		}
		size, _ = record.Length(s.buffer) // 0 if it is not known yet
		more, readErr := s.fill(size)
		switch {
		case readErr != nil:
			return r, at, readErr
		case !more && len(s.buffer) == 0:
			return r, at, io.EOF
		case !more:
			return r, at, fmt.Errorf("at byte %d: %w", at, err)
		}
	}
}

// fill reads on, into new memory, so that records that were returned stay as they are. It reports
// whether it got anything.
func (s *Scanner) fill(size int) (more bool, err error) {
	want := int(min(int64(max(chunk, size)), s.end-s.offset)) - len(s.buffer)
	if want <= 0 {
		return false, nil
	}
	buffer := make([]byte, len(s.buffer)+want)
	n, err := s.from.ReadAt(buffer[copy(buffer, s.buffer):], s.offset+int64(len(s.buffer)))
	s.buffer = buffer[:len(s.buffer)+n]
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return n > 0, nil
}
