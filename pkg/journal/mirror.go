package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// Leader is the process whose log a [Mirror] copies.
type Leader interface {
	// Files, Sum and Chunk are those of its journal.
	Files(ctx context.Context) (Files, error)
	Sum(ctx context.Context, name string) (string, error)
	Chunk(ctx context.Context, name string, offset int64) (Chunk, error)
	// Next is Chunk, and acknowledges all of the log before the offset.
	Next(ctx context.Context, name string, offset int64) (Chunk, error)
}

// Mirror is the copy of a leader's log in journal.dir of a follower. [Open] on that directory continues
// the log, after Close. Follow is for one goroutine; the other methods may be called concurrently.
type Mirror struct {
	dir    *disk.Directory
	logger *slog.Logger
	boot   string

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

	mu       sync.Mutex
	state    copyState
	verified map[string]bool // the files that are those of the leader of state.Term
}

// OpenMirror locks a directory, and makes a missing one.
func OpenMirror(path string, logger *slog.Logger) (*Mirror, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create journal.dir: %w; set it to a directory that this user may create", err)
	}
	d, warning, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		logger.Warn("journal directory open to others", "reason", warning, "next", "change its mode (chmod)")
	}
	m := &Mirror{dir: d, logger: logger, boot: bootID(), verified: map[string]bool{}}
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
		head, err := readFile(m.dir, name, segment.HeaderSize)
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

// Own reports whether this process has written the log in the directory itself, and Whole whether the
// copy has all that the leader showed to anyone when it was last heard of.
func (m *Mirror) Own() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Is == ""
}

// Whole reports whether the copy is as the leader's log was, but for what was still on its way.
func (m *Mirror) Whole() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Is == copyWhole && m.state.Boot == m.boot
}

// Distrust has [Open] declare that the copy may lack events that sinks have.
func (m *Mirror) Distrust() error {
	if m.Own() || m.Whole() {
		return m.note(copyStale)
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
		m.tidying.Wait()
		m.tidied = nil
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
	for told := false; ; {
		if err := m.step(ctx, leader); err != nil {
			return fmt.Errorf("follow the log: %w", err)
		}
		if !told && m.goal.Name == "" {
			inSync()
			told = true
		}
	}
}

// join makes the sealed files those of the leader, and begins with the active one anew. Files of before stay
// if the leader has the same.
func (m *Mirror) join(ctx context.Context, leader Leader, term int64) error {
	if err := m.closeFile(); err != nil {
		return err
	}
	for {
		files, err := filesOf(ctx, leader)
		if err != nil {
			return err // it may be gone: until it answers, the copy stays what it is
		}
		err = m.joinFiles(ctx, leader, term, files)
		if errors.Is(err, ErrNoFile) && ctx.Err() == nil {
			continue // compaction has replaced it
		}
		if err != nil {
			return err
		}
		m.version, m.goal, m.pending = files.Version, files.Active, nil
		return m.begin(files.Active.Name)
	}
}

// joinFiles has the sealed files of a list, and no others. A copy of an earlier moment of the same term stays
// usable meanwhile. Any other one may have sequences that the leader has used again, so that goes first.
func (m *Mirror) joinFiles(ctx context.Context, leader Leader, term int64, files Files) error {
	m.mu.Lock()
	earlier := m.state.Term == term && m.state.Is != copyPartial
	if m.state.Term != term {
		m.verified = map[string]bool{}
	}
	m.state.Term = term
	m.mu.Unlock()
	if earlier {
		if err := m.note(copyStale); err != nil {
			return err
		}
	} else {
		if err := m.note(copyPartial); err != nil {
			return err
		}
		if err := m.removeOthers(ctx, leader, files); err != nil {
			return err
		}
	}
	if err := m.copyMissing(ctx, leader, files); err != nil {
		return err
	}
	return m.removeOthers(ctx, leader, files)
}

// errNoLog: whoever answers is no informd, or one of another format.
var errNoLog = errors.New("the answer is not about the files of a log")

// filesOf returns the list of a leader, if its names are those of a log: they become names of files here.
func filesOf(ctx context.Context, leader Leader) (Files, error) {
	files, err := leader.Files(ctx)
	if err != nil {
		return files, err
	}
	for _, f := range append([]File{files.Active}, files.Sealed...) {
		if _, ok := segment.ParseName(f.Name); !ok {
			return Files{}, fmt.Errorf("%w: %q", errNoLog, f.Name)
		}
	}
	return files, nil
}

// removeOthers removes files that are not those of the leader.
func (m *Mirror) removeOthers(ctx context.Context, leader Leader, files Files) error {
	names, err := m.dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !ofLog(name) {
			continue
		}
		if files.Has(name) {
			same, err := m.same(ctx, leader, name)
			if err != nil && !errors.Is(err, ErrNoFile) {
				return err
			}
			if same {
				continue
			}
		}
		if err := m.dir.Remove(name); err != nil {
			return err
		}
	}
	return m.dir.Sync()
}

// copyMissing copies sealed files that are not here, or not the same.
func (m *Mirror) copyMissing(ctx context.Context, leader Leader, files Files) error {
	names, err := m.dir.Names()
	if err != nil {
		return err
	}
	for _, f := range files.Sealed {
		if slices.Contains(names, f.Name) {
			if same, err := m.same(ctx, leader, f.Name); err != nil {
				return err
			} else if same {
				continue
			}
		}
		if err := m.copyFile(ctx, leader, f); err != nil {
			return err
		}
		m.verify(f.Name)
	}
	return m.dir.Sync()
}

// same compares a sealed file with that of the leader, once in a term: no sealed file ever changes.
func (m *Mirror) same(ctx context.Context, leader Leader, name string) (bool, error) {
	m.mu.Lock()
	known := m.verified[name]
	m.mu.Unlock()
	if known {
		return true, nil
	}
	mine, err := m.sum(name)
	if err != nil {
		return false, err
	}
	theirs, err := leader.Sum(ctx, name)
	if err == nil && mine == theirs {
		m.verify(name)
	}
	return mine == theirs, err
}

// verify notes that a file is that of the leader.
func (m *Mirror) verify(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.verified[name] = true
}

// copyFile copies a sealed file. It has its name when it is complete and synced.
func (m *Mirror) copyFile(ctx context.Context, leader Leader, f File) error {
	temporary := f.Name + segment.TemporarySuffix
	if err := ignoreMissing(m.dir.Remove(temporary)); err != nil {
		return err
	}
	open, err := m.dir.Create(temporary)
	if err != nil {
		return err
	}
	size := int64(0)
	for ended := false; err == nil && !ended; {
		var c Chunk
		if c, err = leader.Chunk(ctx, f.Name, size); err == nil {
			_, err = open.WriteAt(c.Bytes, size)
			size, ended = size+int64(len(c.Bytes)), c.Ended
		}
	}
	if err == nil && f.Size > 0 && size != f.Size {
		err = fmt.Errorf("%s has %d bytes, and the leader's has %d", f.Name, size, f.Size)
	}
	if err == nil {
		err = open.Sync()
	}
	if err = errors.Join(err, open.Close()); err != nil {
		return errors.Join(err, m.dir.Remove(temporary))
	}
	return m.dir.Rename(temporary, f.Name)
}

// begin begins with a copy of a segment that grows.
func (m *Mirror) begin(name string) error {
	if err := errors.Join(m.closeFile(), ignoreMissing(m.dir.Remove(name))); err != nil {
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
	c, err := leader.Next(ctx, m.name, m.offset)
	if err != nil {
		return err
	}
	if _, err := m.open.WriteAt(c.Bytes, m.offset); err != nil {
		return err
	}
	m.offset += int64(len(c.Bytes))
	if m.goal.Name != "" && m.reached(m.goal) { // before the next call acknowledges that
		if err := m.note(copyWhole); err != nil {
			return err
		}
		m.goal = File{}
	}
	if c.Ended {
		if c.Next == "" {
			return ErrNoFile
		}
		if _, ok := segment.ParseName(c.Next); !ok {
			return fmt.Errorf("%w: %q", errNoLog, c.Next)
		}
		if err := m.open.Sync(); err != nil {
			return err
		}
		m.verify(m.name)
		if err := m.begin(c.Next); err != nil {
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
			m.tidied = nil
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

// tidy copies sealed files that are new, and removes those that are gone.
func (m *Mirror) tidy(ctx context.Context, leader Leader, files Files) error {
	if err := m.copyMissing(ctx, leader, files); err != nil {
		return err
	}
	names, err := m.dir.Names()
	if err != nil {
		return err
	}
	active, _ := segment.ParseName(files.Active.Name)
	for _, name := range names {
		if n, ok := segment.ParseName(name); !ok || n.Number >= active.Number || files.Has(name) {
			continue
		}
		if err := m.dir.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mirror) closeFile() (err error) {
	if m.open != nil {
		err = m.open.Close()
		m.open = nil
	}
	return err
}

// sum is that of [Journal.Sum].
func (m *Mirror) sum(name string) (string, error) {
	f, err := m.dir.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, math.MaxInt64)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// note makes it durable what the copy is.
func (m *Mirror) note(is string) error {
	m.mu.Lock()
	s := copyState{Is: is, Boot: m.boot, Term: m.state.Term}
	m.mu.Unlock()
	if err := noteCopy(m.dir, s); err != nil {
		return fmt.Errorf("note the state of the copy: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
	return nil
}
