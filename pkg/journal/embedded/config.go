package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/informd/informd/internal/private"
)

// Config is the configuration of a [Server]. Logger and Dir are required.
type Config struct {
	// Dir is the directory of the journal (journal.dir), with the store in <Dir>/jetstream.
	// Start creates a missing one.
	Dir string
	// Listen is a loopback address for NATS clients, "" for none. Clients may read with pull
	// consumers, and may not write.
	Listen string
	// Events are the subjects that clients of Listen may subscribe to without a consumer, as
	// in "k8s.>"; "" for none. Clients can consume streams in any case.
	Events string
	// MaxBytes is the limit of the journal's stream, in bytes (journal.maxBytes).
	MaxBytes int64
	// SyncAlways writes every message to the disk before its acknowledgement, so that it
	// survives a loss of power.
	SyncAlways bool
	// Stream is the name of the journal's stream, and the prefix of the names of its other
	// streams. A block of them that was removed just before a crash counts as lost, unless all
	// of its messages are known to be superseded or purged. Messages of the stream may be
	// removed only in the order of their subject: a purge removes all messages of a subject,
	// or all below a sequence.
	Stream string
	// Reserve is the free space to keep on the disk, in bytes; 0 is 2 % of the disk, at least
	// 64 MiB and at most 1 GiB.
	Reserve int64
	// Logger takes the messages of the server and its guard.
	Logger *slog.Logger

	// For tests: the disk's state, how the server is, how often the guard looks, and how long the
	// server or the file system may take to answer it. They may be zero.
	disk     func(dir string) (disk, error)
	health   func(*server.Server) map[string]string
	tick     time.Duration
	patience time.Duration
}

// guardTick is how often the guard looks at the disk and the server.
const guardTick = time.Second

func (c *Config) validate() error {
	if c.Dir == "" {
		return errors.New("journal.dir is empty: set it, or journal.type: memory")
	}
	if c.MaxBytes <= 0 {
		return fmt.Errorf("journal.maxBytes is %d: it must be above 0", c.MaxBytes)
	}
	if c.Listen == "" {
		return nil
	}
	_, _, err := c.address()
	return err
}

// address returns host and port of Listen.
func (c *Config) address() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("journal.listen %q: %w; it is an address like 127.0.0.1:4222", c.Listen, err)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("journal.listen %q: %q is not a port", c.Listen, text)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", 0, fmt.Errorf("journal.listen %q is reachable from other machines, and there is no login: use a loopback address like 127.0.0.1:%d, or a NATS server of your own (journal.type: nats)", c.Listen, port)
	}
	return host, port, nil
}

// prepareDir makes the directory, checks whose it is, and finds out now whether it can be
// written.
func prepareDir(dir string, logger *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return notWritable(dir, err)
	}
	warning, err := private.Dir(dir)
	if err != nil {
		return fmt.Errorf("journal.dir: %w", err)
	}
	if warning != "" {
		logger.Warn("journal.dir is writable by other users", "reason", warning)
	}
	store := filepath.Join(dir, "jetstream")
	if err := os.Mkdir(store, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return notWritable(dir, err)
	}
	if _, err := private.Dir(store); err != nil {
		return fmt.Errorf("journal.dir: %w", err)
	}
	return notWritable(dir, probeDir(dir))
}

func notWritable(dir string, err error) error {
	if err != nil {
		return fmt.Errorf("journal.dir %s is not writable (%w): set journal.dir to a writable directory, or set journal.type: memory (its events are lost at a restart)", dir, err)
	}
	return nil
}

func probeDir(dir string) error {
	file, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
