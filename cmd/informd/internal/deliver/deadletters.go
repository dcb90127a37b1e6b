package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
)

// maxRaw is how much of an unreadable frame a dead letter keeps.
const maxRaw = 64 << 10

// DeadLetters is the file of events that cannot be delivered to one sink:
// <dir>/deadletters/<name>.ndjson, one JSON object per line, readable by its
// owner only. Directory and file are made when the first letter comes.
//
// The file is opened for each letter: letters are rare, and an operator may move
// the file away at any time. It is never trimmed here. Methods may be called
// concurrently.
type DeadLetters struct {
	name, path string

	mu sync.Mutex // one line at a time
}

// NewDeadLetters names the file for the sink called name below dir. It touches
// nothing on disk.
func NewDeadLetters(dir, name string) *DeadLetters {
	// A name may have characters that mean something in a path.
	file := url.PathEscape(name) + ".ndjson"
	return &DeadLetters{name: name, path: filepath.Join(dir, "deadletters", file)}
}

// Path returns the path of the file, which need not exist yet.
func (d *DeadLetters) Path() string { return d.path }

// Letter is an event that cannot be delivered.
type Letter struct {
	Event *event.Event
	// Reason is the sink's error.
	Reason string
	// Attempts is how often the event was tried.
	Attempts int
}

// SourceLetter is something the API server sent that is no readable object.
type SourceLetter struct {
	// Target and Key say what it is about, as far as that is known.
	Target, Key string
	// Reason says what is wrong with it.
	Reason string
	// Size is its length in bytes.
	Size int
	// Raw is the thing itself, of which the first 64 KiB are kept. It has not
	// been redacted: leave it nil if it may hold a Secret.
	Raw []byte
}

// letterHead is what every line begins with.
type letterHead struct {
	Time   string `json:"time"`
	Sink   string `json:"sink"`
	Reason string `json:"reason"`
}

func (d *DeadLetters) head(reason string) letterHead {
	return letterHead{Time: event.FormatTime(time.Now()), Sink: d.name, Reason: reason}
}

// Write appends a letter and returns when it is on the disk. After an error the
// letter may or may not be there.
func (d *DeadLetters) Write(ctx context.Context, l Letter) error {
	line, err := json.Marshal(struct {
		letterHead
		Attempts int `json:"attempts"`
	}{d.head(l.Reason), l.Attempts})
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	// The event is JSON already, and must come out as it is.
	line = append(line[:len(line)-1], `,"event":`...)
	line = append(l.Event.AppendJSON(line), '}')
	return d.append(ctx, line)
}

// WriteSource appends what the API server sent and informd cannot read, and
// returns when it is on the disk.
func (d *DeadLetters) WriteSource(ctx context.Context, l SourceLetter) error {
	line, err := json.Marshal(struct {
		letterHead
		Target string `json:"target"`
		Key    string `json:"key"`
		Size   int    `json:"size"`
		Raw    []byte `json:"raw,omitempty"`
	}{d.head(l.Reason), l.Target, l.Key, l.Size, l.Raw[:min(len(l.Raw), maxRaw)]})
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	return d.append(ctx, line)
}

// append writes one line and makes it durable.
func (d *DeadLetters) append(ctx context.Context, line []byte) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := d.open()
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("write dead letter: %w", closeErr)
		}
	}()
	torn, err := endsInMidLine(f)
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	if torn {
		// A write that was cut short must not spoil this line, too.
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	return nil
}

// open opens the file for appending. A new file's directory entry is synced as
// well: without it the file itself may be gone after a power failure.
func (d *DeadLetters) open() (*os.File, error) {
	const mode = os.O_RDWR | os.O_APPEND
	f, err := os.OpenFile(d.path, mode, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	dir := filepath.Dir(d.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if f, err = os.OpenFile(d.path, mode|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := syncDir(dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// endsInMidLine reports whether the file is not empty and lacks its last newline.
func endsInMidLine(f *os.File) (bool, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return false, err
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], end-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}
