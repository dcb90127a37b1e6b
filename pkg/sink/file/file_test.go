package file_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/file"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(path string) *file.Config {
	return &file.Config{Path: path, MaxBytes: 100 * sink.MiB, MaxFiles: 10}
}

func newPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "events.ndjson")
}

func openSink(t *testing.T, c *file.Config) sink.Sink {
	t.Helper()
	s, err := c.Open(t.Context(), sinktest.Env(t))
	sinktest.Must(t, err)
	return s
}

func closeSink(t *testing.T, s sink.Sink) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	sinktest.Must(t, err)
	return string(text)
}

func lines(events []event.Event) string {
	var text []byte
	for i := range events {
		text = append(events[i].AppendJSON(text), '\n')
	}
	return string(text)
}

// full is a disk with that much room left.
func full(room int) file.Disk {
	return file.Disk{Write: func(f *os.File, p []byte) (int, error) {
		n := min(room, len(p))
		room -= n
		if _, err := f.Write(p[:n]); err != nil {
			return 0, err
		}
		if n < len(p) {
			return n, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
		}
		return n, nil
	}}
}

func TestConformance(t *testing.T) {
	// One with a single file, and others that rotate all the time.
	for name, c := range map[string]file.Config{
		"one file": {MaxBytes: sink.GiB},
		"rotating": {MaxBytes: 2000},
		"gzip":     {MaxBytes: 2000, Compression: compress.Gzip},
	} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Target{Lanes: file.Driver().Lanes, Setup: func(t *testing.T) *sinktest.Destination {
				t.Helper()
				return destination(&file.Config{Path: newPath(t), MaxBytes: c.MaxBytes, MaxFiles: 1000, Compression: c.Compression})
			}})
		})
	}
}

func destination(c *file.Config) *sinktest.Destination {
	var s sink.Sink
	return &sinktest.Destination{
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			s = openSink(t, c)
			return s
		},
		Received: func(t *testing.T) []sinktest.Record {
			t.Helper()
			all, err := sinktest.FromLines([]byte(everything(t, c)))
			sinktest.Must(t, err)
			return all
		},
		Break: func(t *testing.T, after int) {
			t.Helper()
			file.SetDisk(t, s, full(after*450+100))
		},
		Heal: func(t *testing.T) {
			t.Helper()
			file.SetDisk(t, s, file.Disk{})
		},
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string) string // returns the path to open
		want    string
	}{
		"missing directory": {func(_ *testing.T, path string) string { return filepath.Join(path, "sub", "f") }, "its directory does not exist; create the directory"},
		"directory":         {func(_ *testing.T, path string) string { return filepath.Dir(path) }, "the path is a directory"},
		"link": {func(t *testing.T, path string) string {
			t.Helper()
			sinktest.Must(t, os.Symlink("elsewhere", path))
			return path
		}, "symbolic link"},
		"pipe that nobody reads": {func(t *testing.T, path string) string {
			t.Helper()
			sinktest.Must(t, syscall.Mkfifo(path, 0o600))
			return path
		}, "not a regular file"},
		"device": {func(*testing.T, string) string { return os.DevNull }, "not a regular file"},
		"somebody else's file": {func(t *testing.T, path string) string {
			t.Helper()
			write(t, path, "root:x:0:0:root:/root:/bin/sh\n")
			return path
		}, "informd did not write it"},
		"somebody else's short file": {func(t *testing.T, path string) string {
			t.Helper()
			write(t, path, "x")
			return path
		}, "informd did not write it"},
		"a directory in place of the directory's parent": {func(t *testing.T, path string) string {
			t.Helper()
			write(t, path, "")
			return filepath.Join(path, "f")
		}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.prepare(t, newPath(t))
			s, err := config(path).Open(t.Context(), sinktest.Env(t))
			if err == nil {
				closeSink(t, s)
				t.Fatal("Open took it")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || sink.IsPermanent(err) {
				t.Errorf("error %q, want one that passes and holds %q and the path", err, c.want)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	sinktest.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// One file in other words is the same file.
func TestExclusive(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	want := filepath.Join(dir, "events.ndjson")
	for _, path := range []string{want, "events.ndjson", "./a/../events.ndjson", dir + "//events.ndjson"} {
		var options sink.Exclusive = config(path)
		if key, name := options.Exclusive(); key != "path" || name != want {
			t.Errorf("%s: %s %s, want path %s", path, key, name, want)
		}
	}
}

// TestForeignFilesStay: nothing is cut off a file that informd did not write, in either
// format, whether the file is refused or not.
func TestForeignFilesStay(t *testing.T) {
	for name, text := range map[string]string{
		"an object on one line":             `{"password":"precious"}`,
		"an object of Kubernetes":           `{"apiVersion":"v1","kind":"Secret"}`,
		"an event of another producer":      `{"specversion":"1.0","id":"1","precious":true}`,
		"lines, the last one without end":   `{"apiVersion":"v1","kind":"A"}` + "\n" + `{"precious":1}`,
		"half a line that is not informd's": `{"apiVersion":"v1","kind":"A"}` + "\n" + `{"preci`,
		"a manifest":                        "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"A\"\n}",
		"a brace and more":                  `{ precious`,
		"text without a newline at the end": "precious",
	} {
		for _, format := range []sink.Format{sink.FormatRaw, sink.FormatCloudEvents} {
			t.Run(name+"/"+string(format), func(t *testing.T) {
				path := newPath(t)
				write(t, path, text)
				c := config(path)
				c.Format = format
				if s, err := c.Open(t.Context(), sinktest.Env(t)); err == nil {
					sinktest.MustWrite(t, s, sinktest.Events(1))
					closeSink(t, s)
				}
				if got := read(t, path); !strings.HasPrefix(got, text) {
					t.Errorf("the file now holds %q", got)
				}
			})
		}
	}
}

func TestSecondSinkIsRefused(t *testing.T) {
	path := newPath(t)
	first := openSink(t, config(path))
	second, err := config(path).Open(t.Context(), sinktest.Env(t))
	if err == nil {
		closeSink(t, second)
		t.Fatal("two sinks have the same file")
	}
	if !strings.Contains(err.Error(), "another sink") || !strings.Contains(err.Error(), path) {
		t.Errorf("error %q does not say what is wrong", err)
	}
	closeSink(t, first)
	closeSink(t, openSink(t, config(path)))
}

func TestFileMode(t *testing.T) {
	path := newPath(t)
	closeSink(t, openSink(t, config(path)))
	wantMode(t, path, 0o600)
	sinktest.Must(t, os.Chmod(path, 0o640))
	closeSink(t, openSink(t, config(path)))
	wantMode(t, path, 0o640)
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	sinktest.Must(t, err)
	if info.Mode().Perm() != want {
		t.Errorf("mode %v, want %v", info.Mode().Perm(), want)
	}
}

func TestRelativePathIsFixedAtOpen(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	s := sinktest.Open(t, config("events.ndjson"))
	t.Chdir(t.TempDir())
	events := sinktest.Events(3)
	sinktest.MustWrite(t, s, events)
	if got := read(t, filepath.Join(dir, "events.ndjson")); got != lines(events) {
		t.Errorf("the file holds %q", got)
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *file.Config)
		want   []string
	}{
		"good":        {func(*file.Config) {}, nil},
		"relative":    {func(c *file.Config) { c.Path = "events" }, nil},
		"no path":     {func(c *file.Config) { c.Path = "" }, []string{"path"}},
		"slash":       {func(c *file.Config) { c.Path = "/var/log/" }, []string{"path"}},
		"dot":         {func(c *file.Config) { c.Path = "/var/." }, []string{"path"}},
		"dots":        {func(c *file.Config) { c.Path = ".." }, []string{"path"}},
		"nul":         {func(c *file.Config) { c.Path = "a\x00b" }, []string{"path"}},
		"stdout":      {func(c *file.Config) { c.Path = "/dev/stdout" }, []string{"path"}},
		"stderr":      {func(c *file.Config) { c.Path = "/dev/../dev/stderr" }, []string{"path"}},
		"descriptor":  {func(c *file.Config) { c.Path = "/proc/self/fd/1" }, []string{"path"}},
		"memory":      {func(c *file.Config) { c.Path = "/dev/shm/events" }, nil},
		"small":       {func(c *file.Config) { c.MaxBytes = sink.MiB - 1 }, []string{"maxBytes"}},
		"smallest":    {func(c *file.Config) { c.MaxBytes, c.MaxFiles = sink.MiB, 1 }, nil},
		"raw, packed": {func(c *file.Config) { c.Format, c.Compression = sink.FormatRaw, compress.Zstd }, nil},
		"all at once": {
			func(c *file.Config) { *c = file.Config{} },
			[]string{"path", "maxBytes", "maxFiles", "format", "compression"},
		},
		"negative files": {func(c *file.Config) { c.MaxFiles = -1 }, []string{"maxFiles"}},
	} {
		t.Run(name, func(t *testing.T) {
			// The defaults of the driver with a path are good.
			options, ok := file.Driver().New().(*file.Config)
			if !ok {
				t.Fatal("the driver makes other options")
			}
			options.Path = "/var/log/informd/events.ndjson"
			c.change(options)
			var keys []string
			for _, p := range options.Validate() {
				keys = append(keys, p.Key)
				if p.Message == "" {
					t.Errorf("%s has no message", p.Key)
				}
			}
			if diff := cmp.Diff(c.want, keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderIsWhatIsWritten(t *testing.T) {
	c := config(newPath(t))
	events := slices.Concat(sinktest.AllOps(), sinktest.Hostile())
	var rendered []byte
	for i := range events {
		one, err := c.Render(sinktest.Env(t), &events[i])
		sinktest.Must(t, err)
		if one.To != c.Path {
			t.Errorf("To = %q, want %q", one.To, c.Path)
		}
		rendered = append(rendered, one.Body...)
	}
	s := openSink(t, c)
	sinktest.MustWrite(t, s, events)
	closeSink(t, s)
	if diff := cmp.Diff(read(t, c.Path), string(rendered)); diff != "" {
		t.Errorf("-written +rendered:\n%s", diff)
	}
}
