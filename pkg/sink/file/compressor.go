package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/informd/informd/pkg/sink/internal/compress"
)

// unfinished is what the name of a file ends in that is being compressed.
const unfinished = ".compressing"

// compressor compresses the older files, one at a time, in a goroutine of its own.
// What it could not do stays as it is until the next rotation or Open.
type compressor struct {
	log    *log
	method compress.Method
	wake   chan struct{}   // has room for one: a rotation while it works is not missed
	life   context.Context //nolint:containedctx // ends to stop it
	end    context.CancelFunc
	done   chan struct{} // closed when it has stopped
}

// startCompressor begins with what a process before has left.
func startCompressor(l *log, method compress.Method) *compressor {
	c := &compressor{log: l, method: method, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.life, c.end = context.WithCancel(context.Background())
	go c.run()
	return c
}

// rotated tells it that there is another older file.
func (c *compressor) rotated() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// stop ends it, and waits for that until ctx ends.
func (c *compressor) stop(ctx context.Context) error {
	c.end()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close file %s: a file is being compressed: %w", c.log.path, ctx.Err())
	}
}

func (c *compressor) run() {
	defer close(c.done)
	for {
		// From the oldest: a rotation moves files towards what was looked at, and
		// wakes it again.
		for i := c.log.maxFiles - 1; i > 0 && c.life.Err() == nil; i-- {
			if err := c.compress(c.log.numbered(i)); err != nil && !errors.Is(err, context.Canceled) {
				c.log.logger.Warn("older file not compressed; retrying at the next rotation", "path", c.log.numbered(i), "err", err)
			}
		}
		select {
		case <-c.wake:
		case <-c.life.Done():
			return
		}
	}
}

// compress compresses the file at path, if there is one.
func (c *compressor) compress(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(c.compressFile(f), f.Close())
}

func (c *compressor) compressFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	packed := c.log.path + unfinished
	made, err := c.pack(f, info, packed)
	if err != nil {
		if made != nil && isStill(packed, made) {
			err = errors.Join(err, removeIfThere(packed))
		}
		return err
	}
	return c.log.replace(info, made, packed, c.method.Suffix())
}

// isStill reports whether path is the file that was made there. A sink that has not ended within
// the time of its Close may compress beside the next one, which uses the same path.
func isStill(path string, made os.FileInfo) bool {
	at, err := os.Lstat(path)
	return err == nil && os.SameFile(at, made)
}

// pack writes the compressed file to stable storage, with the mode of the other. It returns which
// file it made, if any.
func (c *compressor) pack(from io.Reader, info os.FileInfo, path string) (made os.FileInfo, err error) {
	if err := removeIfThere(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if made, err = f.Stat(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	err = func() error {
		w, err := c.method.NewWriter(f)
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, stoppable{io.LimitReader(from, info.Size()), c}); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := f.Chmod(info.Mode().Perm()); err != nil {
			return err
		}
		return f.Sync()
	}()
	return made, errors.Join(err, f.Close())
}

// removeIfThere removes a file that may be missing.
func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// stoppable is a reader that fails when the compressor is to stop.
type stoppable struct {
	io.Reader
	c *compressor
}

func (s stoppable) Read(p []byte) (int, error) {
	if err := s.c.life.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}
