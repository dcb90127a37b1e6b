package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/file"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// files returns what is in the directory of path, by name.
func files(t *testing.T, path string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	sinktest.Must(t, err)
	all := map[string]string{}
	for _, e := range entries {
		all[e.Name()] = read(t, filepath.Join(filepath.Dir(path), e.Name()))
	}
	return all
}

func wantFiles(t *testing.T, path string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, files(t, path)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestRotation(t *testing.T) {
	path := newPath(t)
	events := sinktest.Events(9)
	// Every file has room for the two that it gets, to the byte.
	size := 0
	for i := 0; i < len(events)-1; i += 2 {
		size = max(size, len(lines(events[i:i+2])))
	}
	s := sinktest.Open(t, &file.Config{Path: path, MaxBytes: sink.ByteSize(size), MaxFiles: 3})
	sinktest.MustWrite(t, s, events[:5])
	wantFiles(t, path, map[string]string{
		"events.ndjson": lines(events[4:5]), "events.ndjson.1": lines(events[2:4]), "events.ndjson.2": lines(events[0:2]),
	})
	sinktest.MustWrite(t, s, events[5:])
	wantFiles(t, path, map[string]string{
		"events.ndjson": lines(events[8:9]), "events.ndjson.1": lines(events[6:8]), "events.ndjson.2": lines(events[4:6]),
	})
}

func TestRotationWithOneFile(t *testing.T) {
	path := newPath(t)
	events := sinktest.Events(3)
	s := sinktest.Open(t, &file.Config{Path: path, MaxBytes: 10, MaxFiles: 1})
	sinktest.MustWrite(t, s, events)
	wantFiles(t, path, map[string]string{"events.ndjson": lines(events[2:])})
}

// TestLargeEventIsAlone: an event beyond maxBytes shares its file with none.
func TestLargeEventIsAlone(t *testing.T) {
	path := newPath(t)
	small, big := sinktest.Events(2), sinktest.Big(1, 5000)
	s := sinktest.Open(t, &file.Config{Path: path, MaxBytes: 2000, MaxFiles: 5})
	sinktest.MustWrite(t, s, small[:1])
	sinktest.MustWrite(t, s, big)
	sinktest.MustWrite(t, s, small[1:])
	wantFiles(t, path, map[string]string{
		"events.ndjson": lines(small[1:]), "events.ndjson.1": lines(big), "events.ndjson.2": lines(small[:1]),
	})
}

// TestRotationOfOlderFiles: numbers move up whatever the files of them end in, and files beyond maxFiles are removed. What a
// rotation that was interrupted left in disorder costs no file.
func TestRotationOfOlderFiles(t *testing.T) {
	events := sinktest.Events(2)
	for name, c := range map[string]struct {
		maxFiles    int
		older, want map[string]string // by what follows the name of the file
	}{
		"holes":      {10, map[string]string{".1": "1", ".2": "2", ".4": "4"}, map[string]string{".2": "1", ".3": "2", ".4": "4"}},
		"compressed": {4, map[string]string{".1.gz": "1", ".2": "2", ".3.zst": "3"}, map[string]string{".2.gz": "1", ".3": "2"}},
		"surplus": {
			3,
			map[string]string{".1": "1", ".2": "2", ".3.zst": "3", ".4": "4", ".5.gz": "5", ".bak": "mine"},
			map[string]string{".2": "1", ".bak": "mine"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			for suffix, text := range c.older {
				write(t, path+suffix, text)
			}
			s := sinktest.Open(t, &file.Config{Path: path, MaxBytes: 10, MaxFiles: c.maxFiles})
			sinktest.MustWrite(t, s, events)
			want := map[string]string{"events.ndjson": lines(events[1:]), "events.ndjson.1": lines(events[:1])}
			for suffix, text := range c.want {
				want["events.ndjson"+suffix] = text
			}
			wantFiles(t, path, want)
		})
	}
}

// TestArchivesOfLogrotateStay: logrotate keeps more files than maxFiles, some of them
// compressed. A sink that does not rotate removes none.
func TestArchivesOfLogrotateStay(t *testing.T) {
	path := newPath(t)
	events := sinktest.Events(1)
	want := map[string]string{"events.ndjson": lines(events)}
	for n := 1; n <= 15; n++ {
		name := fmt.Sprintf("events.ndjson.%d", n)
		if n > 1 {
			name += ".gz"
		}
		want[name] = fmt.Sprint(n)
		write(t, filepath.Join(filepath.Dir(path), name), want[name])
	}
	s := openSink(t, config(path))
	sinktest.MustWrite(t, s, events)
	closeSink(t, s)
	wantFiles(t, path, want)
}

func TestRotationThatFails(t *testing.T) {
	path := newPath(t)
	sinktest.Must(t, os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700))
	events := sinktest.Events(2)
	s := sinktest.Open(t, &file.Config{Path: path, MaxBytes: 10, MaxFiles: 2})
	for range 2 { // and it goes on being an error, and nothing is lost
		n, err := s.Write(t.Context(), events)
		if n > 1 || err == nil || sink.IsPermanent(err) || !strings.Contains(err.Error(), path+".1") {
			t.Fatalf("Write = %d, %v, want an error about %s.1", n, err, path)
		}
		events = events[n:]
	}
	sinktest.Must(t, os.RemoveAll(path+".1"))
	sinktest.MustWrite(t, s, events)
	wantFiles(t, path, map[string]string{"events.ndjson": lines(events), "events.ndjson.1": lines(sinktest.Events(1))})
}

// TestOtherProgramsAtWork: the file is moved, removed and emptied under the sink.
func TestOtherProgramsAtWork(t *testing.T) {
	events := sinktest.Events(6)
	for name, c := range map[string]struct {
		act  func(path string) error
		want map[string]string
	}{
		"moved": {
			func(path string) error { return os.Rename(path, path+"-20261120") },
			map[string]string{"events.ndjson": lines(events[3:]), "events.ndjson-20261120": lines(events[:3])},
		},
		"moved and made anew": {
			func(path string) error {
				return errors.Join(os.Rename(path, path+".1"), os.WriteFile(path, nil, 0o600))
			},
			map[string]string{"events.ndjson": lines(events[3:]), "events.ndjson.1": lines(events[:3])},
		},
		"removed": {os.Remove, map[string]string{"events.ndjson": lines(events[3:])}},
		"emptied": {
			func(path string) error { return os.Truncate(path, 0) },
			map[string]string{"events.ndjson": lines(events[3:])},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			s := sinktest.Open(t, config(path))
			sinktest.MustWrite(t, s, events[:3])
			sinktest.Must(t, c.act(path))
			sinktest.MustWrite(t, s, events[3:])
			wantFiles(t, path, c.want)
			if second, err := config(path).Open(t.Context(), sinktest.Env(t)); err == nil {
				closeSink(t, second)
				t.Error("the file is not locked any more")
			}
		})
	}
}

// cuts are lengths of the text: around the ends of lines all of them, in
// between some. Each costs the tests a few syncs.
func cuts(text string) []int {
	var all []int
	for i := range len(text) + 1 {
		if i < 2 || i%17 == 0 || strings.Contains(text[i-2:min(i+2, len(text))], "\n") {
			all = append(all, i)
		}
	}
	return all
}

// TestTornFile cuts a file at many bytes, as a crash may: what was whole stays,
// the half line goes, and the next line begins where it should.
func TestTornFile(t *testing.T) {
	path := newPath(t)
	events := sinktest.Events(3)
	all := lines(events[:2])
	for _, size := range cuts(all) {
		write(t, path, all[:size])
		s := openSink(t, config(path))
		sinktest.MustWrite(t, s, events[2:])
		closeSink(t, s)
		whole := all[:strings.LastIndexByte(all[:size], '\n')+1]
		if size < len(all) && all[size] == '\n' {
			whole = all[:size+1] // the line lacked nothing but its end
		}
		if got := read(t, path); got != whole+lines(events[2:]) {
			t.Fatalf("cut after %d bytes: %q", size, got)
		}
	}
}

// TestTornHugeLine: the beginning of the half line is far before the end.
func TestTornHugeLine(t *testing.T) {
	path := newPath(t)
	first, big := lines(sinktest.Events(1)), lines(sinktest.Big(1, 300_000))
	write(t, path, first+big[:len(big)-2])
	closeSink(t, openSink(t, config(path)))
	if got := read(t, path); got != first {
		t.Errorf("%d bytes are left, want %d", len(got), len(first))
	}
}

// TestFullDisk fills the disk at many bytes of a batch: n is what the file holds
// in whole lines, and the rest follows when there is room.
func TestFullDisk(t *testing.T) {
	path := newPath(t)
	events := sinktest.Events(3)
	all := lines(events)
	for _, room := range cuts(all[:len(all)-1]) {
		write(t, path, "")
		s := openSink(t, config(path))
		file.SetDisk(t, s, full(room))
		n, err := s.Write(t.Context(), events)
		if want := strings.Count(all[:room], "\n"); n != want || !errors.Is(err, syscall.ENOSPC) || sink.IsPermanent(err) {
			t.Fatalf("room for %d bytes: Write = %d, %v; want %d and ENOSPC", room, n, err, want)
		}
		if got := read(t, path); got != lines(events[:n]) {
			t.Fatalf("room for %d bytes: the file holds %q", room, got)
		}
		file.SetDisk(t, s, file.Disk{})
		sinktest.MustWrite(t, s, events[n:])
		closeSink(t, s)
		if got := read(t, path); got != all {
			t.Fatalf("room for %d bytes: in the end %q", room, got)
		}
	}
}

// TestFullDiskThatCannotBeCut: the half line stays for now, and goes when the
// disk works again.
func TestFullDiskThatCannotBeCut(t *testing.T) {
	path := newPath(t)
	events := sinktest.Events(4)
	s := sinktest.Open(t, config(path))
	sinktest.MustWrite(t, s, events[:1])
	broken := full(700)
	errCut := errors.New("disk is gone")
	broken.Truncate = func(*os.File, int64) error { return errCut }
	file.SetDisk(t, s, broken)
	n, err := s.Write(t.Context(), events[1:])
	if n != 0 || !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, errCut) {
		t.Fatalf("Write = %d, %v, want 0 and both errors", n, err)
	}
	file.SetDisk(t, s, file.Disk{})
	sinktest.MustWrite(t, s, events[1:])
	// The line that was whole is there twice: it had not been acknowledged.
	want := lines(events[:2]) + lines(events[1:])
	if got := read(t, path); got != want {
		t.Errorf("file (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// TestFailedSync: after it the lines count for nothing and are written again.
func TestFailedSync(t *testing.T) {
	path := newPath(t)
	events := sinktest.Events(4)
	s := sinktest.Open(t, config(path))
	sinktest.MustWrite(t, s, events[:2])
	failures := 1
	file.SetDisk(t, s, file.Disk{Sync: func(f *os.File) error {
		if failures > 0 {
			failures--
			return syscall.EIO
		}
		return f.Sync()
	}})
	if n, err := s.Write(t.Context(), events[2:]); n != 0 || !errors.Is(err, syscall.EIO) || sink.IsPermanent(err) {
		t.Fatalf("Write = %d, %v, want 0 and EIO", n, err)
	}
	if got := read(t, path); got != lines(events[:2]) {
		t.Errorf("what was not synced is still there: %q", got)
	}
	sinktest.MustWrite(t, s, events[2:])
	if got := read(t, path); got != lines(events) {
		t.Errorf("in the end: %q", got)
	}
}

// TestEveryWriteIsSynced: what is acknowledged is on stable storage.
func TestEveryWriteIsSynced(t *testing.T) {
	s := sinktest.Open(t, config(newPath(t)))
	dirty := 0
	file.SetDisk(t, s, file.Disk{
		Write: func(f *os.File, p []byte) (int, error) { dirty += len(p); return f.Write(p) },
		Sync:  func(f *os.File) error { dirty = 0; return f.Sync() },
	})
	for _, batch := range [][]int{{0, 1}, {1, 10}} {
		sinktest.MustWrite(t, s, sinktest.Events(10)[batch[0]:batch[1]])
		if dirty != 0 {
			t.Errorf("%d bytes were acknowledged without a sync", dirty)
		}
	}
}
