package embedded_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/informd/informd/pkg/journal/embedded"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestLessRoomThanBefore: a journal whose stream has reserved more than the server
// may store now still opens, whether its limit was lowered or the disk has less.
func TestLessRoomThanBefore(t *testing.T) {
	dir := t.TempDir()
	for _, maxBytes := range []int64{1 << 30, 32 << 20, 1 << 30} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		server, err := embedded.Start(ctx, embedded.Config{Dir: dir, MaxBytes: maxBytes, Stream: "INFORMD", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		j, err := jetstream.Open(ctx, jetstream.Config{
			Conn: server.Conn(), Cluster: "c", Stream: "INFORMD", SubjectPrefix: "k8s", HistoryPerObject: 16,
			MaxBytes: server.MaxBytes(), DeletedRetention: time.Hour, Own: true, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatalf("with %d bytes: %v", maxBytes, err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		cancel()
	}
}
