package file_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/file"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// pack compresses as the tools do, and not as the sink does.
func pack(t *testing.T, suffix, text string) string {
	t.Helper()
	var packed bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&packed)
	if suffix == ".zst" {
		var err error
		if w, err = zstd.NewWriter(&packed); err != nil {
			t.Fatal(err)
		}
	}
	_, err := io.WriteString(w, text)
	sinktest.Must(t, errors.Join(err, w.Close()))
	return packed.String()
}

func unpack(t *testing.T, name, text string) string {
	t.Helper()
	plain, err := endpointtest.Unpack(map[string]string{".gz": "gzip", ".zst": "zstd"}[filepath.Ext(name)], []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(plain)
}

// wantUnpacked waits until the directory holds these files, by name, with what is in
// them before compression.
func wantUnpacked(t *testing.T, path string, want map[string]string) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		sinktest.Must(t, err)
		all := map[string]string{}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil || strings.HasSuffix(name, ".compressing") {
				all[filepath.Base(name)] = "still changing"
				continue
			}
			all[filepath.Base(name)] = unpack(t, name, string(text))
		}
		diff := cmp.Diff(want, all)
		if diff == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("files (-want +got):\n%s", diff)
		}
		<-poll.C
	}
}

func TestOlderFilesAreCompressed(t *testing.T) {
	for method, suffix := range map[compress.Method]string{compress.Gzip: ".gz", compress.Zstd: ".zst"} {
		t.Run(string(method), func(t *testing.T) {
			path := newPath(t)
			events := sinktest.Events(5)
			write(t, path, lines(events[:1]))
			sinktest.Must(t, os.Chmod(path, 0o640))
			s := sinktest.Open(t, &file.Config{Path: path, MaxBytes: 10, MaxFiles: 4, Compression: method})
			sinktest.MustWrite(t, s, events[1:2])
			wantUnpacked(t, path, map[string]string{"events.ndjson": lines(events[1:2]), "events.ndjson.1" + suffix: lines(events[:1])})
			wantMode(t, path+".1"+suffix, 0o640)
			sinktest.MustWrite(t, s, events[2:])
			wantUnpacked(t, path, map[string]string{
				"events.ndjson": lines(events[4:]), "events.ndjson.1" + suffix: lines(events[3:4]),
				"events.ndjson.2" + suffix: lines(events[2:3]), "events.ndjson.3" + suffix: lines(events[1:2]),
			})
		})
	}
}

// TestCompressionGoesOn: what a crash left at any point, or a config with another
// compression, is in order after Open, and nothing that was whole is lost.
func TestCompressionGoesOn(t *testing.T) {
	const first, second = `{"specversion":"1.0","id":"1"}` + "\n", `{"specversion":"1.0","id":"2"}` + "\n"
	for name, c := range map[string]struct {
		left map[string]string
		want map[string]string
	}{
		"not begun": {map[string]string{".2": first, ".1": second}, map[string]string{".2.gz": first, ".1.gz": second}},
		"half way": {
			map[string]string{".1": second, ".compressing": pack(t, ".gz", first)[:20]},
			map[string]string{".1.gz": second},
		},
		"older file not removed yet": {
			map[string]string{".1": second, ".1.gz": pack(t, ".gz", second)},
			map[string]string{".1.gz": second},
		},
		"other compression before": {
			map[string]string{".1": second, ".2.zst": pack(t, ".zst", first)},
			map[string]string{".1.gz": second, ".2.zst": first},
		},
		"more files before": { // until the next rotation
			map[string]string{".1": second, ".3.zst": pack(t, ".zst", first), ".4": first, ".5.gz": pack(t, ".gz", first)},
			map[string]string{".1.gz": second, ".3.zst": first, ".4": first, ".5.gz": first},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			for suffix, text := range c.left {
				write(t, path+suffix, text)
			}
			sinktest.Open(t, &file.Config{Path: path, MaxBytes: 10, MaxFiles: 3, Compression: compress.Gzip})
			want := map[string]string{"events.ndjson": ""}
			for suffix, text := range c.want {
				want["events.ndjson"+suffix] = text
			}
			wantUnpacked(t, path, want)
		})
	}
}

// TestCompressionThatFails costs nothing but space, and works again later.
func TestCompressionThatFails(t *testing.T) {
	path := newPath(t)
	inTheWay := filepath.Join(path+".1.gz", "in the way")
	sinktest.Must(t, os.MkdirAll(inTheWay, 0o700))
	write(t, path+".1", lines(sinktest.Events(1)))
	s := openSink(t, &file.Config{Path: path, MaxBytes: sink.MiB, MaxFiles: 3, Compression: compress.Gzip})
	sinktest.MustWrite(t, s, sinktest.Events(3))
	closeSink(t, s)
	if got := read(t, path+".1"); got != lines(sinktest.Events(1)) {
		t.Errorf("the older file holds %q", got)
	}
	sinktest.Must(t, os.RemoveAll(path+".1.gz"))
	sinktest.Open(t, &file.Config{Path: path, MaxBytes: sink.MiB, MaxFiles: 3, Compression: compress.Gzip})
	wantUnpacked(t, path, map[string]string{"events.ndjson": lines(sinktest.Events(3)), "events.ndjson.1.gz": lines(sinktest.Events(1))})
}

// TestCompressionBesideALock: a reader's lock of an older file does not matter. NFS gives no other lock of a file
// that is only read.
func TestCompressionBesideALock(t *testing.T) {
	path := newPath(t)
	write(t, path+".1", lines(sinktest.Events(1)))
	reader, err := os.Open(path + ".1")
	sinktest.Must(t, err)
	defer reader.Close() //nolint:errcheck // nothing was written
	sinktest.Must(t, syscall.Flock(int(reader.Fd()), syscall.LOCK_SH))
	sinktest.Open(t, &file.Config{Path: path, MaxBytes: sink.MiB, MaxFiles: 3, Compression: compress.Gzip})
	wantUnpacked(t, path, map[string]string{"events.ndjson": "", "events.ndjson.1.gz": lines(sinktest.Events(1))})
}

// TestCompressionWhileRotating holds the order of the files, and every line, while
// files move under the compressor; the sink is closed in the middle again and again.
func TestCompressionWhileRotating(t *testing.T) {
	path := newPath(t)
	events := sinktest.Events(120)
	c := &file.Config{Path: path, MaxBytes: 3000, MaxFiles: 1000, Compression: compress.Zstd}
	for i := 0; i < len(events); i += 24 {
		s := openSink(t, c)
		for j := i; j < i+24; j += 3 {
			sinktest.MustWrite(t, s, events[j:j+3])
		}
		closeSink(t, s)
	}
	if got := everything(t, c); got != lines(events) {
		t.Errorf("of %d bytes the files hold %d", len(lines(events)), len(got))
	}
	if left, _ := filepath.Glob(path + "*.compressing"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestRotationWaitsForOneFile: after the first Open with a compression there may be gigabytes of older files. A
// rotation waits for the one that is being compressed, and the rest is compressed later.
func TestRotationWaitsForOneFile(t *testing.T) {
	path := newPath(t)
	events := sinktest.Events(2)
	write(t, path, lines(events[:1]))
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(noise) //nolint:errcheck // never fails
	const older = 64
	for i := 1; i <= older; i++ {
		write(t, fmt.Sprintf("%s.%d", path, i), string(noise))
	}
	s := sinktest.Open(t, &file.Config{Path: path, MaxBytes: 10, MaxFiles: 100, Compression: compress.Gzip})
	var packed []string
	file.SetDisk(t, s, file.Disk{Write: func(f *os.File, p []byte) (int, error) { // after the rotation
		packed, _ = filepath.Glob(path + ".*.gz")
		return f.Write(p)
	}})
	sinktest.MustWrite(t, s, events[1:])
	if len(packed) == older {
		t.Errorf("the rotation has waited for %d files", older)
	}
	// From the newest: the oldest is the next to be removed.
	if len(packed) > 0 && !slices.Contains(packed, path+".2.gz") {
		t.Errorf("compressed before the rotation: %q, without the newest", packed)
	}
}

// everything is what all files hold, in order. They may be compressed meanwhile: then
// there are two of a number.
func everything(t *testing.T, c *file.Config) string {
	t.Helper()
	var text strings.Builder
	for i := c.MaxFiles; i > 0; i-- {
		for _, suffix := range []string{"", ".gz", ".zst"} {
			name := fmt.Sprintf("%s.%d%s", c.Path, i, suffix)
			if older, err := os.ReadFile(name); err == nil {
				text.WriteString(unpack(t, name, string(older)))
				break
			}
		}
	}
	text.WriteString(read(t, c.Path))
	return text.String()
}

func TestRawLines(t *testing.T) {
	path := newPath(t)
	c := &file.Config{Path: path, MaxBytes: sink.MiB, MaxFiles: 2, Format: sink.FormatRaw}
	events := append(sinktest.AllOps(), sinktest.Hostile()...)
	s := openSink(t, c)
	sinktest.MustWrite(t, s, events)
	closeSink(t, s)
	var want []byte
	for i := range events {
		want = append(events[i].AppendRaw(want), '\n')
	}
	if diff := cmp.Diff(string(want), read(t, path)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	// A crash leaves half an object, which is none.
	const whole = `{"apiVersion":"v1","kind":"Pod"}` + "\n"
	write(t, path, whole+`{"apiVersion":"v1","ki`)
	closeSink(t, openSink(t, c))
	if got := read(t, path); got != whole {
		t.Errorf("after a crash the file holds %q", got)
	}
	if _, err := config(path).Open(t.Context(), sinktest.Env(t)); err == nil || !strings.Contains(err.Error(), "informd did not write it") {
		t.Errorf("objects are taken for events: %v", err)
	}
	write(t, path, "root:x:0\n")
	if _, err := c.Open(t.Context(), sinktest.Env(t)); err == nil || !strings.Contains(err.Error(), "informd did not write it") {
		t.Errorf("somebody else's file is taken: %v", err)
	}
}
