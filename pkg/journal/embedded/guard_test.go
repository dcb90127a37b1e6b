package embedded_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/pkg/journal/embedded"
	journal "github.com/informd/informd/pkg/journal/jetstream"
)

// fullDisk is a disk that can be filled and emptied again. Where the test may
// mount a file system it is a real one; else the server is made to do what it does
// when it meets a full one.
type fullDisk struct {
	fill  func(s *embedded.Server)
	clear func()
}

func newFullDisk(t *testing.T, c *embedded.Config) fullDisk {
	t.Helper()
	c.Reserve = 8 << 20
	dir := t.TempDir()
	if err := syscall.Mount("informd", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Logf("a full disk is simulated, since no file system can be mounted: %v", err)
		return simulatedDisk(t, c)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c.Dir = filepath.Join(dir, "journal")
	ballast := filepath.Join(dir, "ballast")
	return fullDisk{
		fill: func(*embedded.Server) {
			file, err := os.Create(ballast)
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = file.Write(make([]byte, 4096))
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
		},
		clear: func() { remove(t, ballast) },
	}
}

func simulatedDisk(t *testing.T, c *embedded.Config) fullDisk {
	t.Helper()
	var free atomic.Int64
	free.Store(1 << 30)
	c.FakeDisk(func() (int64, int64) { return free.Load(), 2 << 30 })
	c.Dir = t.TempDir()
	return fullDisk{
		fill: func(s *embedded.Server) {
			free.Store(0)
			if err := s.StopJetStream(); err != nil {
				t.Fatal(err)
			}
		},
		clear: func() { free.Store(1 << 30) },
	}
}

// After the disk was full the server stays deaf, even when there is room again.
// The guard says so and puts it right.
func TestDiskFull(t *testing.T) {
	for name, disk := range map[string]func(*testing.T, *embedded.Config) fullDisk{"real": newFullDisk, "simulated": simulatedDisk} {
		t.Run(name, func(t *testing.T) { testDiskFull(t, disk) })
	}
}

// The guard finds the server deaf after a full disk, also if the disk was full before the guard has
// seen the stream work.
func TestDiskFullFromTheStart(t *testing.T) {
	var lock sync.Mutex
	c := config("")
	full := newFullDisk(t, &c)
	c.MaxBytes = 16 << 20
	c.Hang(&lock)
	lock.Lock()
	s := start(t, c)
	create(t, s)
	full.fill(s)
	deaf := func() bool {
		_, err := js(t, s.Conn()).Publish(briefly(t), subject(0), body(0))
		return err != nil
	}
	eventually(t, "a publish to fail", deaf)
	full.clear()
	lock.Unlock()
	eventually(t, "the server to work again", func() bool {
		ok, _ := s.State()
		return ok && !deaf()
	})
}

// briefly is a time in which a server that works answers.
func briefly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func testDiskFull(t *testing.T, disk func(*testing.T, *embedded.Config) fullDisk) {
	var log logBuffer
	c := config("")
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	full := disk(t, &c)
	c.MaxBytes = 16 << 20
	s := start(t, c)
	create(t, s)
	publish(t, s, 0, 100)

	full.fill(s)
	eventually(t, "the state to say so", func() bool {
		ok, reason := s.State()
		return !ok && strings.Contains(reason, "disk full") && strings.Contains(reason, c.Dir)
	})
	// Publish until it fails: some may still fit.
	acknowledged := 100
	j := js(t, s.Conn())
	eventually(t, "a publish to fail", func() bool {
		if _, err := j.Publish(briefly(t), subject(acknowledged), body(acknowledged)); err != nil {
			return true
		}
		acknowledged++
		return false
	})
	if n := strings.Count(log.String(), "store unavailable"); n != 1 {
		t.Errorf("the full disk was logged %d times", n)
	}

	full.clear()
	eventually(t, "the server to work again", func() bool {
		_, err := j.Publish(briefly(t), subject(1000), body(1000))
		ok, _ := s.State()
		return err == nil && ok
	})
	if found := stored(t, s, acknowledged); len(found) != acknowledged {
		t.Errorf("%d of %d acknowledged messages are left", len(found), acknowledged)
	}
	if s.Damaged() {
		t.Errorf("a full disk is taken for damage: %v", s.Damage())
	}
	stop(t, s)
	if again := start(t, c); again.Damaged() {
		t.Errorf("at the next start, a full disk is taken for damage: %v", again.Damage())
	}
}

// A disk that was full at the start leaves hardly a limit; when there is room, the
// journal gets it, and when others take it, not beyond what is left: without a
// start of the server, and without a reopening of the journal.
func TestRoomFollowsDisk(t *testing.T) {
	var free atomic.Int64
	c := config(t.TempDir())
	c.Listen = "127.0.0.1:0"
	c.FakeDisk(func() (int64, int64) { return free.Load(), 10 << 30 })
	free.Store(300 << 20)
	s := start(t, c)
	url := s.URL()
	j, err := journal.Open(timeout(t), journal.Config{
		Conn: s.Conn(), Cluster: "c", Stream: stream, SubjectPrefix: "k8s", HistoryPerObject: 16,
		MaxBytes: s.MaxBytes(), Room: s.MaxBytes, DeletedRetention: time.Hour, Own: true, Logger: c.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	if got := j.Stats().Capacity; got >= 300<<20 {
		t.Fatalf("the journal may take %d MiB of 300 MiB", got>>20)
	}
	for _, step := range []struct{ free, least, most int64 }{
		{8 << 30, c.MaxBytes, c.MaxBytes},
		{400 << 20, 100 << 20, 400 << 20},
		{8 << 30, c.MaxBytes, c.MaxBytes},
	} {
		free.Store(step.free)
		eventually(t, "the limit to follow", func() bool {
			capacity := int64(j.Stats().Capacity)
			return step.least <= capacity && capacity <= step.most
		})
	}
	info, err := create(t, s).Info(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	if info.Config.MaxBytes != c.MaxBytes {
		t.Errorf("the stream is bounded at %d", info.Config.MaxBytes)
	}
	if n := s.Conn().Stats().Reconnects; n != 0 || s.URL() != url {
		t.Errorf("the server was started anew: %d reconnects, %s and then %s", n, url, s.URL())
	}
}

// If the free space falls below the reserve at once, the limit follows: the journal takes nothing
// of the reserve.
func TestLimitFallsBelowReserve(t *testing.T) {
	var free atomic.Int64
	c := config(t.TempDir())
	c.FakeDisk(func() (int64, int64) { return free.Load(), 10 << 30 }) // with a reserve of 205 MiB
	free.Store(8 << 30)
	s := start(t, c)
	create(t, s)
	publish(t, s, 0, 500) // 4 MiB
	if got := s.MaxBytes(); got != c.MaxBytes {
		t.Fatalf("the limit is %d MiB on an empty disk", got>>20)
	}
	for _, step := range []struct{ free, most int64 }{{100 << 20, 4 << 20}, {8 << 30, c.MaxBytes}, {0, 4 << 20}} {
		free.Store(step.free)
		eventually(t, "the limit to follow", func() bool {
			ok, _ := s.State()
			return ok == (step.most == c.MaxBytes) && s.MaxBytes() <= step.most && ok == (s.MaxBytes() == c.MaxBytes)
		})
	}
	if n := s.Conn().Stats().Reconnects; n != 0 {
		t.Errorf("the server was started %d more times", n)
	}
}

// The server that was started on a full disk is not started anew to get room.
func TestRoomReturns(t *testing.T) {
	var free atomic.Int64
	c := config(t.TempDir())
	c.FakeDisk(func() (int64, int64) { return free.Load(), 10 << 30 })
	s := start(t, c)
	if ok, _ := s.State(); ok && s.MaxBytes() > 1<<20 {
		t.Errorf("MaxBytes is %d on a full disk", s.MaxBytes())
	}
	free.Store(8 << 30)
	eventually(t, "the limit to grow", func() bool {
		ok, _ := s.State()
		return ok && s.MaxBytes() == 1<<30
	})
	create(t, s)
	publish(t, s, 0, 10)
	if n := s.Conn().Stats().Reconnects; n != 0 {
		t.Errorf("the server was started %d more times", n)
	}
}

// A server that is caught in itself is noticed, and so is the end of it.
func TestStuck(t *testing.T) {
	var lock sync.Mutex
	c := config(t.TempDir())
	c.Patience(600 * time.Millisecond)
	c.Hang(&lock)
	s := start(t, c)
	create(t, s)
	publish(t, s, 0, 1)
	eventually(t, "it not to be stuck at the beginning", func() bool { return !s.Stuck() })
	lock.Lock()
	eventually(t, "it to be noticed", func() bool {
		ok, reason := s.State()
		return s.Stuck() && !ok && strings.Contains(reason, "restart informd")
	})
	lock.Unlock()
	eventually(t, "its end to be noticed", func() bool {
		ok, _ := s.State()
		return !s.Stuck() && ok
	})
}

// A file system that does not answer is noticed, and so is the end of it.
func TestHungFileSystem(t *testing.T) {
	var log logBuffer
	var lock sync.Mutex
	c := config(t.TempDir())
	c.Patience(600 * time.Millisecond)
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.FakeDisk(func() (int64, int64) {
		lock.Lock()
		defer lock.Unlock()
		return 8 << 30, 10 << 30
	})
	s := start(t, c)
	create(t, s)
	publish(t, s, 0, 1)
	eventually(t, "it not to be stuck at the beginning", func() bool { return !s.Stuck() })
	lock.Lock()
	answer := sync.OnceFunc(lock.Unlock)
	t.Cleanup(answer) // the server cannot be closed before
	eventually(t, "it to be noticed", func() bool {
		ok, reason := s.State()
		return s.Stuck() && !ok && strings.Contains(reason, "restart informd")
	})
	answer()
	eventually(t, "its end to be noticed", func() bool {
		ok, _ := s.State()
		return !s.Stuck() && ok
	})
	// A busy machine does not answer in time more than once. Each time is logged once, and its end, too.
	eventually(t, "as many ends in the log", func() bool {
		n := strings.Count(log.String(), "store unavailable")
		return n > 0 && n == strings.Count(log.String(), "store recovered")
	})
}
