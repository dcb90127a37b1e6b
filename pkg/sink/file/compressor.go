package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/informd/informd/internal/private"
	"github.com/informd/informd/pkg/sink/internal/compress"
)

// unfinished is what the name of a file ends in that is being compressed.
const unfinished = ".compressing"

// compressor compresses the older files once, one at a time, in a goroutine. The next rotation waits for the file
// that it compresses, so that only other programs move files under it. What it has not done stays as it is until then.
type compressor struct {
	end  context.CancelFunc
	rest atomic.Bool   // it begins no further file
	done chan struct{} // closed when it has stopped
}

func startCompressor(l *log, method compress.Method) *compressor {
	ctx, end := context.WithCancel(context.Background())
	c := &compressor{end: end, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer end()
		for i := 1; i < l.maxFiles && ctx.Err() == nil && !c.rest.Load(); i++ {
			if err := compressFile(ctx, l.numbered(i), l.path+unfinished, method, private.SyncDir); err != nil && ctx.Err() == nil {
				l.logger.Warn("older file not compressed; retrying at the next rotation", "path", l.numbered(i), "err", err)
			}
		}
	}()
	return c
}

// wait waits until it has stopped, or ctx ends.
func (c *compressor) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("an older file is being compressed: %w", ctx.Err())
	}
}

// compressFile compresses the file at path, if there is one, by way of the path packed. Another program may move
// it meanwhile: what is at path then stays.
func compressFile(ctx context.Context, path, packed string, method compress.Method, syncDir func(string) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	// Shared: NFS gives no exclusive lock of a file that is only read.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil // another program has moved the current file, and its sink still writes to it
	} else if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	still := func() bool {
		at, err := os.Lstat(path)
		return err == nil && os.SameFile(at, info) && at.Size() == info.Size()
	}
	if err := pack(ctx, f, info, packed, method); err != nil || !still() {
		return errors.Join(err, removeIfThere(packed))
	}
	if err := os.Rename(packed, path+method.Suffix()); err != nil {
		return err
	}
	// If the process ends here, both are there, and it is compressed again.
	if err := syncDir(path); err != nil || !still() {
		return err
	}
	return os.Remove(path)
}

// pack writes the compressed file to stable storage, with the mode of the other. A file that is there was
// left by a process before.
func pack(ctx context.Context, from io.Reader, info os.FileInfo, path string, method compress.Method) error {
	if err := removeIfThere(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w, err := method.NewWriter(f)
	if err == nil {
		_, err = io.Copy(w, stoppable{io.LimitReader(from, info.Size()), ctx})
		err = errors.Join(err, w.Close())
	}
	if err == nil {
		err = errors.Join(f.Chmod(info.Mode().Perm()), f.Sync())
	}
	return errors.Join(err, f.Close(), ctx.Err()) // a sink that was closed replaces nothing: the next one may be open
}

// removeIfThere removes a file that may be missing.
func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// stoppable is a reader that fails when its context has ended.
type stoppable struct {
	io.Reader
	ctx context.Context //nolint:containedctx // of one call of pack
}

func (s stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}
