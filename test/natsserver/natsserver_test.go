package natsserver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/informd/informd/test/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns a connection of the test's own, closed with it, and JetStream
// over it.
func connect(t *testing.T, server *natsserver.Server) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
	t.Cleanup(func() {
		conn.Close()
		<-closed
	})
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

func publish(ctx context.Context, t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	for i := range n {
		if _, err := js.Publish(ctx, "test.subject", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAcknowledgedMessagesSurviveKillAndStop(t *testing.T) {
	ctx := t.Context()
	server := natsserver.Start(t, natsserver.Options{})
	url := server.URL()
	_, js := connect(t, server)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "TEST", Subjects: []string{"test.>"}}); err != nil {
		t.Fatal(err)
	}
	const perRound = 10
	for round, end := range []func() error{server.Kill, server.Stop} {
		publish(ctx, t, js, perRound)
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if server.Running() {
			t.Fatal("server still runs")
		}
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if server.URL() != url {
			t.Fatalf("URL changed from %s to %s", url, server.URL())
		}
		_, js = connect(t, server)
		stream, err := js.Stream(ctx, "TEST")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := stream.CachedInfo().State.Msgs, uint64((round+1)*perRound); got != want {
			t.Fatalf("stream holds %d messages after restart %d, want %d", got, round, want)
		}
	}
}

func TestFrozenServerIsSilentUntilThawed(t *testing.T) {
	server := natsserver.Start(t, natsserver.Options{})
	conn, _ := connect(t, server)
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := conn.FlushTimeout(200 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Fatalf("flush to a frozen server: %v, want a timeout", err)
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := conn.FlushTimeout(10 * time.Second); err != nil {
		t.Fatalf("flush to a thawed server: %v", err)
	}
}

func TestOptionsReachTheServer(t *testing.T) {
	server := natsserver.Start(t, natsserver.Options{
		MaxPayload: 4096,
		MaxStore:   16 << 20,
		SyncAlways: true,
		Config:     `authorization { token: "s3cret" }`,
		Connect:    []nats.Option{nats.Token("s3cret")},
	})
	if _, err := nats.Connect(server.URL(), nats.NoReconnect()); !errors.Is(err, nats.ErrAuthorization) {
		t.Fatalf("connect without the token: %v", err)
	}
	conn, err := nats.Connect(server.URL(), nats.Token("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.MaxPayload(); got != 4096 {
		t.Errorf("max payload is %d, want 4096", got)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BIG", MaxBytes: 32 << 20})
	if err == nil {
		t.Error("a stream larger than the store limit was accepted")
	}
}

func TestStartErrorCarriesTheLogAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := natsserver.New(t.Context(), natsserver.Options{Config: "no_such_option: ["})
	if err == nil {
		t.Fatal("started with a broken configuration")
	}
	if !strings.Contains(err.Error(), "Parse error") {
		t.Errorf("error lacks the log: %v", err)
	}
	entries, readErr := os.ReadDir(os.Getenv("TMPDIR"))
	if readErr != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, readErr)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	server, err := natsserver.New(t.Context(), natsserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir, exited := server.Dir(), server.Exited()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-exited:
	default:
		t.Error("process still runs")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory %s: %v", dir, err)
	}
	if err := server.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
