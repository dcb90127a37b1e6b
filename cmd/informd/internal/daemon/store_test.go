package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/pkg/natsconn"
	"github.com/informd/informd/pkg/sink"
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
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return s
}

// TestConnectionLost: the log tells that the connection to the journal is lost if its
// server goes away, and not if informd ends.
func TestConnectionLost(t *testing.T) {
	for name, goes := range map[string]bool{"the server goes away": true, "informd ends": false} {
		t.Run(name, func(t *testing.T) {
			s := natsServer(t)
			before := goleak.IgnoreCurrent()
			var log logBuffer
			c := &config.Config{Cluster: "test", Journal: config.Journal{
				Type: config.JournalNATS, Config: natsconn.Config{URL: sink.NewSecret(s.ClientURL())},
				MaxBytes: 64 << 20, Stream: "INFORMD", SubjectPrefix: "k8s", HistoryPerObject: 16, TombstoneTTL: time.Hour,
			}}
			st, err := openStore(t.Context(), c, slog.New(slog.NewTextHandler(&log, nil)), newHealth(), func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			told := func() bool { return strings.Contains(log.String(), "connection to the journal lost") }
			if goes {
				s.Shutdown()
				look := time.NewTicker(time.Millisecond)
				defer look.Stop()
				for end := time.After(10 * time.Second); !told(); {
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
