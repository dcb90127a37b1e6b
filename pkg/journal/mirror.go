package journal

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// Leader is the process whose log a [Mirror] copies.
type Leader interface {
	// Files and Chunk are those of its journal. With ack, Chunk acknowledges all of the log before the offset.
	Files(ctx context.Context) (Files, error)
	Chunk(ctx context.Context, name string, offset int64, ack bool) (Chunk, error)
}

// Mirror is the copy of a leader's log in journal.dir of a follower. [Open] on that directory continues
// the log, after Close. Follow is for one goroutine; the other methods may be called concurrently.
type Mirror struct {
	dir  *disk.Directory
	boot string

	// Of Follow. Term is that of the leader whose log is copied, 0 for none.
	term    int64
	version uint64 // of the list of files that the sealed ones are like
	pending *Files // a newer list: its files are copied when the end has come as far
	name    string // of the newest segment, which is written at offset
	offset  int64
	open    disk.File
	goal    File // the copy is whole when the end has come so far
	tidying sync.WaitGroup
	tidied  chan error // the result of tidy; nil while none is in progress

	mu    sync.Mutex
	state copyState
}

// OpenMirror locks a directory, and makes a missing one.
func OpenMirror(path string, logger *slog.Logger) (*Mirror, error) {
	d, err := openDir(path, logger)
	if err != nil {
		return nil, err
	}
	m := &Mirror{dir: d, boot: bootID()}
	if m.state, err = readCopyState(d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return m, nil
}

// Log returns the id of the log in the directory, empty without one.
func (m *Mirror) Log() (string, error) {
	names, err := m.dir.Names()
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		n, ok := segment.ParseName(name)
		if !ok || name != n.Log() {
			continue
		}
		head, err := disk.Read(m.dir, name, 0, segment.HeaderSize)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was replaced a moment ago
		}
		if err != nil {
			return "", err
		}
		if h, err := segment.ParseHeader(head, n); err == nil {
			return hex.EncodeToString(h.ID[:]), nil
		}
	}
	return "", nil
}

// Own reports whether this process has written the log in the directory itself.
func (m *Mirror) Own() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Is == ""
}

// Whole reports whether the copy has all that the leader showed to anyone when it was last heard of.
func (m *Mirror) Whole() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Is == copyWhole && m.state.Boot == m.boot
}

// Distrust has [Open] declare that the copy may lack events that sinks have.
func (m *Mirror) Distrust() error {
	if m.Own() || m.Whole() {
		return m.note(copyStale, m.state.Term)
	}
	return nil // it is known already
}

// Close gives the directory up. No Follow may be in progress.
func (m *Mirror) Close() error {
	return errors.Join(m.closeFile(), m.dir.Close())
}

// Follow copies the log of a leader until ctx ends or a call fails. It begins with a comparison of all
// files, unless it has followed this leader before. InSync is called once, when the copy is whole.
func (m *Mirror) Follow(ctx context.Context, leader Leader, term int64, inSync func()) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		if m.tidying.Wait(); m.tidied != nil {
			m.tidied, m.version = nil, 0 // it may not have come to its end
		}
		if errors.Is(err, ErrNoFile) || m.open == nil {
			m.term = 0
		}
	}()
	if m.term == 0 || m.term != term {
		m.term = 0
		if err := m.join(ctx, leader, term); err != nil {
			return fmt.Errorf("copy the log: %w", err)
		}
		m.term = term
	}
	for reported := false; ; {
		if err := m.step(ctx, leader); err != nil {
			return fmt.Errorf("follow the log: %w", err)
		}
		if !reported && m.goal.Name == "" {
			inSync()
			reported = true
		}
	}
}

// begin begins with a copy of a segment that grows.
func (m *Mirror) begin(name string) error {
	if err := errors.Join(m.closeFile(), disk.Remove(m.dir, name)); err != nil {
		return err
	}
	open, err := m.dir.Create(name)
	if err == nil {
		m.open, m.name, m.offset = open, name, 0
	}
	return err
}

// step copies what the newest segment has more.
func (m *Mirror) step(ctx context.Context, leader Leader) error {
	c, err := leader.Chunk(ctx, m.name, m.offset, true)
	if err != nil {
		return err
	}
	if _, err := m.open.WriteAt(c.Bytes, m.offset); err != nil {
		return err
	}
	m.offset += int64(len(c.Bytes))
	if m.goal.Name != "" && m.reached(m.goal) { // before the next call acknowledges that
		if err := m.note(copyWhole, m.state.Term); err != nil {
			return err
		}
		m.goal = File{}
	}
	if c.Ended {
		if err := m.open.Sync(); err != nil {
			return err
		}
		full, _ := segment.ParseName(m.name)
		if err := m.begin(segment.Name{Number: full.Number + 1}.Log()); err != nil {
			return err
		}
	}
	return m.follow(ctx, leader, c.Version)
}

// reached reports whether the copy has come as far as the end of a list of files.
func (m *Mirror) reached(end File) bool {
	mine, _ := segment.ParseName(m.name)
	theirs, _ := segment.ParseName(end.Name)
	return cmp.Or(cmp.Compare(mine.Number, theirs.Number), cmp.Compare(m.offset, end.Size)) >= 0
}

// follow makes the sealed files like those of the leader when their list has another version. What
// compaction has removed may count on later records, so their copies have to come first.
func (m *Mirror) follow(ctx context.Context, leader Leader, version uint64) error {
	if m.tidied != nil {
		select {
		case err := <-m.tidied:
			if m.tidied = nil; err != nil {
				m.version = 0 // the next list has what is missing
			}
			if err != nil && !errors.Is(err, ErrNoFile) {
				return err
			}
		default:
		}
		return nil
	}
	if m.pending == nil && version != m.version {
		files, err := filesOf(ctx, leader)
		if err != nil {
			return err
		}
		m.pending = &files
	}
	if m.pending == nil || m.goal.Name != "" || !m.reached(m.pending.Active) {
		return nil
	}
	files, result := *m.pending, make(chan error, 1)
	m.version, m.pending, m.tidied = files.Version, nil, result
	m.tidying.Go(func() { result <- m.tidy(ctx, leader, files) })
	return nil
}

// tidy copies sealed files that are new, and removes those that are gone. What is here of a name of the list is the same.
func (m *Mirror) tidy(ctx context.Context, leader Leader, files Files) error {
	names, err := m.dir.Names()
	if err != nil {
		return err
	}
	return m.copyMissing(ctx, leader, files, names)
}

func (m *Mirror) closeFile() (err error) {
	if m.open != nil {
		err = m.open.Close()
		m.open = nil
	}
	return err
}

// note makes it durable what the copy is, and of which term. Only Follow changes that.
func (m *Mirror) note(is string, term int64) error {
	s := copyState{Is: is, Boot: m.boot, Term: term}
	if err := noteCopy(m.dir, s); err != nil {
		return fmt.Errorf("note the state of the copy: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
	return nil
}
