package frame

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// firstRead is the size of a window that has not met a larger piece.
	firstRead = 4 << 10
	// watchRead is that of a watch: an idle one reads bookmarks of about 200 bytes.
	watchRead = 512
	// busySize is the size up to which a window grows that is filled to its end again
	// and again: the more of a busy stream one read brings, the fewer there are.
	busySize = 32 << 10
	// keptSize is the largest size that a window keeps once the large piece that
	// it grew for is consumed.
	keptSize = 64 << 10
	// calmReads is after how many reads in a row that use less than a quarter of a buffer
	// it becomes smaller. Idle watches read a bookmark each minute.
	calmReads = 8
)

// errFull says that a piece is larger than the window may grow.
var errFull = errors.New("piece is larger than the buffer may grow")

// window is the unread part of a stream, as far as it was read ahead. It grows to
// hold one piece (a frame, an item) and shrinks again: client-go's own buffer for
// watches only grows, up to 16 MiB, and is kept for the life of the watch.
type window struct {
	r io.Reader
	// buf[start:end] is unread.
	buf        []byte
	start, end int
	consumed   int64 // bytes before start
	filled     bool  // the last read left no room
	least      int   // the smallest size, firstRead if it is 0
	calm       int   // the last reads that used less than a quarter of buf
	max        int   // a bound of what may be unread
	err        error // what the reader returned last, to be returned for ever
	// small is buf while a large one is in use. Large ones come from a pool, if
	// there is one: what lies there is the garbage collector's to free.
	small []byte
	large *sync.Pool
}

func (w *window) unread() []byte { return w.buf[w.start:w.end] }

// consume steps over n unread bytes. They stay in place until the next more.
func (w *window) consume(n int) {
	w.start += n
	w.consumed += int64(n)
}

// more reads on, at least one byte. It returns errFull if max bytes are unread
// already. What unread returned before is invalid after it.
func (w *window) more() error {
	if w.err != nil {
		return w.err
	}
	if err := w.makeRoom(); err != nil {
		return err
	}
	const patience = 100 // as bufio
	for range patience {
		n, err := w.r.Read(w.buf[w.end:])
		w.end += n
		w.filled = w.end == len(w.buf)
		if w.calm++; w.end >= len(w.buf)/4 {
			w.calm = 0
		}
		w.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	w.err = io.ErrNoProgress
	return w.err
}

// makeRoom makes room behind end: by giving a large buffer back, by moving what
// is unread to the front, or by growing.
func (w *window) makeRoom() error {
	size := w.end - w.start
	switch {
	case w.small != nil && size < len(w.small)/2:
		large := w.buf
		w.use(w.small)
		w.small = nil
		w.release(large)
	case w.filled && len(w.buf) < min(busySize, w.max):
		w.grow(w.larger())
	case size == 0 && w.calm >= calmReads && w.small == nil && len(w.buf) > w.smallest():
		w.use(make([]byte, max(len(w.buf)/2, w.smallest())))
		w.calm = 0
	case size == 0 && w.start > 0:
		w.start, w.end = 0, 0
	case w.end < len(w.buf):
	case size >= w.max:
		return errFull
	case w.start > 0 && (size <= len(w.buf)/2 || len(w.buf) >= w.max):
		w.use(w.buf)
	default:
		w.grow(w.larger())
	}
	return nil
}

// smallest is the size that the window begins with.
func (w *window) smallest() int { return cmp.Or(w.least, firstRead) }

// larger is the size that the window grows to.
func (w *window) larger() int { return min(max(2*len(w.buf), w.smallest()), w.max) }

// use moves what is unread to the front of buf, and goes on with it.
func (w *window) use(buf []byte) {
	w.end = copy(buf, w.unread())
	w.start, w.buf = 0, buf
}

func (w *window) grow(size int) {
	old := w.buf
	switch {
	case size <= keptSize:
		w.use(make([]byte, size))
	case w.small == nil:
		w.small = old
		w.use(w.acquire(size))
	default:
		w.use(w.acquire(size))
		w.release(old)
	}
}

// acquire returns a large buffer of at least that size.
func (w *window) acquire(size int) []byte {
	if w.large != nil {
		if buf, ok := w.large.Get().(*[]byte); ok && len(*buf) >= size {
			return *buf
		}
	}
	return make([]byte, size)
}

func (w *window) release(buf []byte) {
	if w.large != nil && len(buf) > keptSize {
		w.large.Put(&buf)
	}
}

// begins says what is wrong with a stream that begins with c, which is no JSON.
func begins(c byte) error {
	if c == 0x1f {
		return errors.New("the response is compressed (gzip), and informd did not request that: disable compression of responses in the proxy before the API server")
	}
	return fmt.Errorf("the response starts with byte %q, which is not JSON", c)
}
