// Package file is the sink that appends events to a file, one CloudEvents JSON
// object or one bare object per line, and keeps a bounded number of older files
// beside it. docs/sinks/file.md has what users see of it.
//
// Package deliver opens the sink through the [Driver] of package drivers. This package
// does not upload or age files; other programs may move or remove them at any time.
//
// # What is in the files
//
// An event counts as delivered when its line is on stable storage: every Write
// ends with fsync. The sink cuts off
// the incomplete line of a failed write at once, and that of a crash when it opens the file;
// a line that lacks only its end gets one. The sink refuses a file that does not begin as a
// file of the format, and one whose last line is incomplete and does not begin as a line
// of the format: informd did not write it, and it stays as it is. If the format was changed
// to raw, one file has lines of both formats.
//
// # Older files
//
// The names are those that logrotate gives, so that it can rotate instead: a file that was
// moved or removed is noticed at the next Write, which goes to a new file. Only a rotation of
// the sink removes files beyond maxFiles: those that logrotate keeps are its own until then.
//
// The older files are compressed in the background. A compressed file replaces the other when
// it is on stable storage as a whole; until then it is path.compressing. A rotation waits for
// the one under way, and an interrupted compression starts again after a crash. Files of any
// suffix count for maxFiles, and rotate, whatever the compression is now.
package file

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
)

// minSize is the smallest maxBytes: a smaller one means constant rotation.
const minSize = sink.MiB

// Config is the options of a file sink.
type Config struct {
	// Path is the current file, absolute or relative to the working directory.
	// Its directory must exist. A new file has mode 0600; an existing file keeps its mode.
	Path string `yaml:"path"`
	// MaxBytes is the largest size of a file; a single larger event has a file to itself.
	MaxBytes sink.ByteSize `yaml:"maxBytes"`
	// MaxFiles is the largest number of files, the current one included: the limit of the
	// disk space is MaxFiles times MaxBytes.
	MaxFiles int `yaml:"maxFiles"`
	// Format is "cloudevents" or "raw".
	Format sink.Format `yaml:"format" enum:"cloudevents,raw"`
	// Compression is the compression of older files. MaxBytes is the size before compression.
	Compression compress.Method `yaml:"compression"`
}

// Driver is the sink type "file".
func Driver() sink.Driver {
	return sink.Driver{
		Type: "file",
		New: func() sink.Config {
			return &Config{
				MaxBytes: 100 * sink.MiB, MaxFiles: 10, Format: sink.FormatCloudEvents, Compression: compress.None,
			}
		},
		Lanes: 1,
	}
}

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	var problems sink.Problems
	switch base := filepath.Base(c.Path); {
	case c.Path == "":
		problems.Add("path", "is required: the file to append to, as in /var/log/informd/events.ndjson")
	case strings.HasSuffix(c.Path, "/") || base == "." || base == "..":
		problems.Add("path", "%q is a directory; add the name of the file, as in events.ndjson", c.Path)
	case strings.ContainsRune(c.Path, 0):
		problems.Add("path", "%q has a NUL character", c.Path)
	case c.device():
		problems.Add("path", "%q is no regular file; for standard output set type: stdout, "+
			"or set the path of a regular file", c.Path)
	}
	if c.MaxBytes < minSize {
		problems.Add("maxBytes", "%s is too small: the least is %s", c.MaxBytes, minSize)
	}
	if c.MaxFiles < 1 {
		problems.Add("maxFiles", "%d is too few: the least is 1, the current file alone", c.MaxFiles)
	}
	if c.Format != sink.FormatCloudEvents && c.Format != sink.FormatRaw {
		problems.Add("format", "%q is not a format; use %s (one event per line) or %s (one bare object per line)",
			c.Format, sink.FormatCloudEvents, sink.FormatRaw)
	}
	if problem := c.Compression.Problem(); problem != "" {
		problems.Add("compression", "%s", problem)
	}
	return problems
}

// device reports whether the path is that of a device or of a descriptor, as /dev/stdout is: nothing
// there can be cut, rotated or synced.
func (c *Config) device() bool {
	_, path := c.Exclusive()
	return strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/")
}

// Exclusive implements [sink.Exclusive]: two sinks would interleave their lines
// and rotate each other's files away.
func (c *Config) Exclusive() (key, name string) {
	path, err := filepath.Abs(c.Path)
	if err != nil {
		path = filepath.Clean(c.Path) // there is no working directory; Open tells
	}
	return "path", path
}

// Destination implements [sink.Destined].
func (c *Config) Destination() (name string, identified bool) {
	_, name = c.Exclusive()
	return name, false
}

// Render implements [sink.Renderer].
func (c *Config) Render(_ sink.Env, e *event.Event) (sink.Rendered, error) {
	return sink.Rendered{To: c.Path, Body: c.Format.AppendLine(nil, e)}, nil
}

// Open implements [sink.Config]. It opens or makes the file, and takes a lock on
// it: a second sink on the same file, in this or another process, is an error.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	path, err := filepath.Abs(c.Path) // the working directory may change
	if err != nil {
		return nil, fmt.Errorf("open file %s: %w", c.Path, err)
	}
	s := &Sink{
		log:         &log{path: path, maxFiles: c.MaxFiles, beginnings: []string{`{"specversion":"1.0","id":"`}, logger: env.Logger},
		compression: c.Compression,
		format:      c.Format,
		maxBytes:    int64(c.MaxBytes),
		disk:        systemDisk(),
	}
	if c.Format == sink.FormatRaw {
		s.log.beginnings = append(s.log.beginnings, `{"apiVersion":"`)
	}
	if err := s.log.open(); err != nil {
		return nil, err
	}
	if err := removeIfThere(path + unfinished); err != nil {
		return nil, errors.Join(err, s.log.close())
	}
	s.compressOlder()
	return s, nil
}
