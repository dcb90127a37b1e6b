package embedded_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded"
)

func TestStartAndClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	s := start(t, config(dir))
	create(t, s)
	publish(t, s, 0, 100)
	if ok, reason := s.State(); !ok {
		t.Errorf("state: %s", reason)
	}
	if s.Damaged() {
		t.Errorf("a first start is taken for damage: %v", s.Damage())
	}
	if s.URL() != "" {
		t.Errorf("there is no listener, but a URL: %s", s.URL())
	}
	if s.MaxBytes() != 1<<30 {
		t.Errorf("MaxBytes is %d", s.MaxBytes())
	}
	stop(t, s)
	stop(t, s) // twice is once
	if ok, _ := s.State(); ok {
		t.Error("a closed server says that it works")
	}
	if !s.Conn().IsClosed() {
		t.Error("the connection outlived its server")
	}
	for _, path := range []string{dir, filepath.Join(dir, "jetstream"), blocks(t, dir)[0]} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %s", path, info.Mode())
		}
	}

	again := start(t, config(dir))
	if found := stored(t, again, 100); len(found) != 100 {
		t.Errorf("%d of 100 messages are left", len(found))
	}
}

// A server that did not work any more when it was closed was not stopped in order.
func TestCloseOfABrokenServer(t *testing.T) {
	c := config(t.TempDir())
	c.Tick(time.Hour) // the guard does not mend it
	s := start(t, c)
	create(t, s)
	publish(t, s, 0, 10)
	if err := s.StopJetStream(); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	if stoppedCleanly(t, c.Dir) {
		t.Error("the ledger says that the server was stopped in order")
	}
	again := start(t, c)
	if found := stored(t, again, 10); len(found) != 10 || again.Damaged() {
		t.Errorf("%d of 10 messages are left, damage: %v", len(found), again.Damage())
	}
	stop(t, again)
	if !stoppedCleanly(t, c.Dir) {
		t.Error("the ledger does not say that the server was stopped in order")
	}
}

func TestSyncAlways(t *testing.T) {
	c := config(t.TempDir())
	c.SyncAlways = true
	s := start(t, c)
	create(t, s)
	publish(t, s, 0, 10)
	if found := stored(t, s, 10); len(found) != 10 {
		t.Errorf("%d of 10 messages", len(found))
	}
}

func TestLargeMessage(t *testing.T) {
	s := start(t, config(t.TempDir()))
	create(t, s)
	if _, err := js(t, s.Conn()).Publish(timeout(t), subject(0), make([]byte, 3<<20)); err != nil {
		t.Errorf("the largest object that an API server takes: %v", err)
	}
}

func TestRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // as short as the test
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // of a test
	tests := map[string]struct {
		change func(c *embedded.Config)
		want   []string
	}{
		"dir empty":        {func(c *embedded.Config) { c.Dir = "" }, []string{"journal.dir", "journal.type: memory"}},
		"dir not writable": {func(c *embedded.Config) { c.Dir = filepath.Join(file, "journal") }, []string{"set journal.dir", "journal.type: memory", file}},
		"no room at all":   {func(c *embedded.Config) { c.MaxBytes = 0 }, []string{"journal.maxBytes"}},
		"listen open":      {func(c *embedded.Config) { c.Listen = "0.0.0.0:4222" }, []string{"journal.listen", "loopback", "journal.type: nats"}},
		"listen all":       {func(c *embedded.Config) { c.Listen = ":4222" }, []string{"journal.listen", "loopback", "journal.type: nats"}},
		"listen host":      {func(c *embedded.Config) { c.Listen = "example.com:4222" }, []string{"journal.listen", "loopback"}},
		"listen no port":   {func(c *embedded.Config) { c.Listen = "127.0.0.1" }, []string{"journal.listen", "127.0.0.1:4222"}},
		"listen bad port":  {func(c *embedded.Config) { c.Listen = "127.0.0.1:nats" }, []string{"journal.listen", `"nats"`}},
		"listen taken":     {func(c *embedded.Config) { c.Listen = taken.Addr().String() }, []string{"in use"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := config(t.TempDir())
			test.change(&c)
			s, err := embedded.Start(timeout(t), c)
			if err == nil {
				stop(t, s)
				t.Fatal("it started")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if test.change = nil; c.Dir != "" && !strings.HasPrefix(c.Dir, file) { // the directory is free again
				c.Listen, c.MaxBytes = "", 1<<30
				start(t, c)
			}
		})
	}
}

// Two processes on one directory would destroy each other's messages.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := start(t, config(dir))
	_, err := embedded.Start(timeout(t), config(dir))
	if err == nil {
		t.Fatal("a second server started on the same directory")
	}
	for _, want := range []string{dir, "pid " + strconv.Itoa(os.Getpid())} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	stop(t, s)
	start(t, config(dir))
}

func TestStartCancelled(t *testing.T) {
	ctx := timeout(t)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	dir := t.TempDir()
	s, err := embedded.Start(cancelled, config(dir))
	if err == nil {
		stop(t, s)
		t.Fatal("it started")
	}
	start(t, config(dir)) // nothing is held
}

// The listener lets clients read and nothing else.
func TestListener(t *testing.T) {
	c := config(t.TempDir())
	c.Listen = "127.0.0.1:0"
	s := start(t, c)
	create(t, s)
	publish(t, s, 0, 10)

	refused := make(chan struct{}, 1)
	conn, err := nats.Connect(s.URL(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			refused <- struct{}{}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	st, err := client.Stream(timeout(t), stream)
	if err != nil {
		t.Fatalf("a client cannot look at the stream: %v", err)
	}
	if _, err := st.GetLastMsgForSubject(timeout(t), subject(3)); err != nil {
		t.Errorf("a client cannot read a message: %v", err)
	}
	for name, consume := range map[string]func() (jetstream.Consumer, error){
		"ordered": func() (jetstream.Consumer, error) {
			return st.OrderedConsumer(timeout(t), jetstream.OrderedConsumerConfig{})
		},
		"durable": func() (jetstream.Consumer, error) {
			return st.CreateConsumer(timeout(t), jetstream.ConsumerConfig{Durable: "app", AckPolicy: jetstream.AckExplicitPolicy})
		},
	} {
		consumer, err := consume()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		batch, err := consumer.Fetch(10, jetstream.FetchMaxWait(deadline))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := 0
		for m := range batch.Messages() {
			if err := m.Ack(); err != nil && name == "durable" {
				t.Errorf("%s: %v", name, err)
			}
			got++
		}
		if got != 10 {
			t.Errorf("%s: %d of 10 messages: %v", name, got, batch.Error())
		}
	}

	for name, harm := range map[string]func(ctx context.Context) error{
		"publish": func(ctx context.Context) error { _, err := client.Publish(ctx, subject(3), nil); return err },
		"purge":   func(ctx context.Context) error { return st.Purge(ctx) },
		"delete":  func(ctx context.Context) error { return client.DeleteStream(ctx, stream) },
		"erase":   func(ctx context.Context) error { return st.DeleteMsg(ctx, 3) },
		"update": func(ctx context.Context) error {
			_, err := client.UpdateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{"k8s.>"}, MaxMsgsPerSubject: 1})
			return err
		},
		"create": func(ctx context.Context) error {
			_, err := client.CreateStream(ctx, jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}})
			return err
		},
	} {
		// A refused request has no answer; the refusal comes on the side.
		ctx, cancel := context.WithCancel(timeout(t))
		done := make(chan error, 1)
		go func() { done <- harm(ctx) }()
		select {
		case <-refused:
		case <-ctx.Done():
			t.Errorf("%s: it was not refused", name)
		}
		cancel()
		if err := <-done; err == nil {
			t.Errorf("a client may %s", name)
		}
	}
	if own, err := nats.Connect(s.URL(), nats.UserInfo("informd", "informd")); err == nil {
		own.Close()
		t.Error("a client may log in as informd")
	}
	if found := stored(t, s, 10); len(found) != 10 {
		t.Errorf("%d of 10 messages are left", len(found))
	}
	names := js(t, s.Conn()).StreamNames(timeout(t))
	count := 0
	for range names.Name() {
		count++
	}
	if count != 1 || names.Err() != nil {
		t.Errorf("there are %d streams now (%v)", count, names.Err())
	}
}

// The connection, and the listener's address, outlive the server behind them.
func TestRestartInPlace(t *testing.T) {
	c := config(t.TempDir())
	c.Listen = "127.0.0.1:0"
	s := start(t, c)
	create(t, s)
	publish(t, s, 0, 100)
	conn, url := s.Conn(), s.URL()
	before := conn.ConnectedServerId()
	for round := range 3 {
		if err := s.StopJetStream(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another server to be connected", func() bool {
			id := conn.ConnectedServerId()
			ok, _ := s.State()
			return id != "" && id != before && ok
		})
		before = conn.ConnectedServerId()
		publish(t, s, 100+round, 101+round)
	}
	if s.URL() != url {
		t.Errorf("the listener moved from %s to %s", url, s.URL())
	}
	if found := stored(t, s, 103); len(found) != 103 {
		t.Errorf("%d of 103 messages are left", len(found))
	}
	if s.Damaged() {
		t.Errorf("a restart is taken for damage: %v", s.Damage())
	}
}

// A stream whose limit was set from MaxBytes can always be created.
func TestSmallDisk(t *testing.T) {
	c := config(t.TempDir())
	c.MaxBytes = 10 << 30
	c.FakeDisk(func() (int64, int64) { return 500 << 20, 1 << 30 })
	s := start(t, c)
	if room := s.MaxBytes(); room >= 500<<20 || room < 300<<20 {
		t.Errorf("MaxBytes is %d MiB on a disk with 500 MiB left", room>>20)
	}
	create(t, s)
	_, err := js(t, s.Conn()).CreateStream(timeout(t), jetstream.StreamConfig{Name: "STATE", Subjects: []string{"state.>"}})
	if err != nil {
		t.Errorf("a second stream: %v", err)
	}
	if _, err := js(t, s.Conn()).Publish(timeout(t), "state.a", nil); err != nil {
		t.Error(err)
	}
}

// What the server refuses because it reached its limit it refuses at once.
func TestLimit(t *testing.T) {
	c := config(t.TempDir())
	c.FakeDisk(func() (int64, int64) { return 80 << 20, 1 << 30 })
	s := start(t, c)
	create(t, s)
	j := js(t, s.Conn())
	var err error
	for n := 0; err == nil && n < 10_000; n++ {
		_, err = j.Publish(timeout(t), subject(n), body(n))
	}
	var apiErr *jetstream.APIError
	if !errors.As(err, &apiErr) || apiErr.ErrorCode != 10077 && apiErr.ErrorCode != 10023 {
		t.Errorf("the journal is full: %v", err)
	}
}
