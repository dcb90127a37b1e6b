package natsserver_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/informd/informd/test/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
