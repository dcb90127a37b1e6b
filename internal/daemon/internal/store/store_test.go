package store

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/natsconn"
)

// logBuffer is a log that is written by several at a time.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func natsServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 16 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	return s
}

// TestConnectionLost: the log reports that the connection to the journal is lost if its
// server goes away, and not if informd ends.
func TestConnectionLost(t *testing.T) {
	for name, goes := range map[string]bool{"the server goes away": true, "informd ends": false} {
		t.Run(name, func(t *testing.T) {
			s := natsServer(t)
			before := goleak.IgnoreCurrent()
			var log logBuffer
			c := &config.Config{Cluster: "test", Journal: config.Journal{
				Type: config.JournalNATS, Config: natsconn.Config{Servers: connection.NewServers(s.ClientURL())},
				MaxBytes: 64 << 20, Stream: "INFORMD", SubjectPrefix: "k8s", HistoryPerObject: 16, DeletedRetention: time.Hour,
			}}
			st, err := Open(t.Context(), c, nil, slog.New(slog.NewTextHandler(&log, nil)), NewHealth(), func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			told := func() bool { return strings.Contains(log.String(), "journal connection lost") }
			if goes {
				s.Shutdown()
				look := time.NewTicker(time.Millisecond)
				defer look.Stop()
				for end := time.After(time.Minute); !told(); {
					select {
					case <-look.C:
					case <-end:
						t.Fatal("not told")
					}
				}
			}
			if err := st.Close(); err != nil && !goes {
				t.Error(err)
			}
			s.Shutdown()
			s.WaitForShutdown()
			goleak.VerifyNone(t, before) // the last callback has returned
			if told() != goes {
				t.Errorf("told: %t, want %t:\n%s", told(), goes, log.String())
			}
		})
	}
}

// TestJournalDirRemoved: informd is not ready once the directory of its journal is gone, and
// names the next step. A directory that is only away for a moment is no such case.
func TestJournalDirRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	var log logBuffer
	c := &config.Config{Cluster: "test", Journal: config.Journal{
		Type: config.JournalEmbedded, Dir: dir, MaxBytes: 64 << 20, Stream: "INFORMD", SubjectPrefix: "k8s", HistoryPerObject: 16, DeletedRetention: time.Hour,
	}}
	st, err := Open(t.Context(), c, nil, slog.New(slog.NewTextHandler(&log, nil)), NewHealth(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Log(err) // it cannot write its record
		}
	})
	until := func(what string, holds func() bool) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(time.Minute); !holds(); <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("waited in vain: %s", what)
			}
		}
	}
	ready := func() bool { return !st.Unusable() }
	until("ready", ready)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	until("not ready", st.Unusable)
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	until("ready again", ready)
	until("removed", func() bool { return os.RemoveAll(dir) == nil }) // the server may be writing there
	until("not ready", st.Unusable)
	if _, reason := st.State(); !strings.Contains(reason, dir) || !strings.Contains(reason, "restart informd") {
		t.Errorf("the reason is %q", reason)
	}
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "restart informd") {
		t.Errorf("the log does not name the next step:\n%s", text)
	}
}

// TestMemoryJournalIsLogged: the log says what a memory journal means, which for --once is
// another thing.
func TestMemoryJournalIsLogged(t *testing.T) {
	forgotten := &config.Config{Journal: config.Journal{Type: config.JournalEmbedded, Dir: "/nonexistent"}}
	config.ForgetJournal(forgotten)
	for want, c := range map[string]*config.Config{
		"memory journal in use; --once ignores journal.dir":     forgotten,
		"memory journal in use; a restart takes a new snapshot": {Journal: config.Journal{Type: config.JournalMemory, MaxBytes: 1 << 20}},
	} {
		var log logBuffer
		st, err := Open(t.Context(), c, nil, slog.New(slog.NewTextHandler(&log, nil)), NewHealth(), func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if text := log.String(); !strings.Contains(text, want) || strings.Count(text, "\n") != 1 {
			t.Errorf("logged %q, want %q", text, want)
		}
	}
}
