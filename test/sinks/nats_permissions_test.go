package sinks_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	stream "github.com/informd/informd/pkg/journal/jetstream"
	"github.com/informd/informd/pkg/journal/lease"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/natsserver"
)

// documented is a server with the user of a page in docs, which knows every subject of the
// messages that it got.
type documented struct {
	server *natsserver.Server
	text   string

	mu       sync.Mutex
	subjects map[string]bool
}

func startDocumented(t *testing.T, file string) *documented {
	t.Helper()
	page, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```conf\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatalf("%s has no configuration of a server", file)
	}
	text = strings.ReplaceAll(text, "prod-eu1", "test") // the cluster of the samples
	t.Setenv("SINK_PASSWORD", "p")
	t.Setenv("JOURNAL_PASSWORD", "p")
	d := &documented{text: text, subjects: map[string]bool{}}
	d.server = natsserver.Start(t, natsserver.Options{
		Config:  strings.Replace(text, "users: [", "users: [{user: root, password: r}", 1),
		Connect: []client.Option{client.UserInfo("root", "r")},
	})
	root := dial(t, d.server.URL(), client.UserInfo("root", "r"))
	if _, err := root.Subscribe(">", func(m *client.Msg) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.subjects[m.Subject] = true
	}); err != nil {
		t.Fatal(err)
	}
	if err := root.Flush(); err != nil {
		t.Fatal(err)
	}
	return d
}

// url is where a user logs in.
func (d *documented) url(user string) string {
	return strings.Replace(d.server.URL(), "nats://", "nats://"+user+":p@", 1)
}

// wantUsed waits until everything that a user may publish to has been published to.
func (d *documented) wantUsed(t *testing.T, user string) {
	t.Helper()
	_, own, _ := strings.Cut(d.text, "user: "+user+",")
	_, own, _ = strings.Cut(own, "publish: [")
	own, _, _ = strings.Cut(own, "]")
	allowed := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(own, -1)
	if len(allowed) < 4 {
		t.Fatalf("user %s may publish to %q", user, allowed)
	}
	var unused []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); pause(t.Context(), 10*time.Millisecond) {
		unused = unused[:0]
		d.mu.Lock()
		for _, pattern := range allowed {
			used := false
			for subject := range d.subjects {
				used = used || matches(pattern[1], subject)
			}
			if !used {
				unused = append(unused, pattern[1])
			}
		}
		d.mu.Unlock()
		if len(unused) == 0 {
			return
		}
	}
	t.Errorf("user %s does not need %q", user, unused)
}

func matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		if token == ">" {
			return len(have) > i
		}
		if i >= len(have) || token != "*" && token != have[i] {
			return false
		}
	}
	return len(want) == len(have)
}

// TestNATSSinkPermissions: a sink needs exactly the permissions in docs/sinks/nats.md.
func TestNATSSinkPermissions(t *testing.T) {
	d := startDocumented(t, "../../docs/sinks/nats.md")
	events := sinktest.Events(20)
	deliver(t, open(t, config(t, d.url("sink"), useJetStream)), events)
	wantOnce(t, jetStream(t, dial(t, d.server.URL(), client.UserInfo("root", "r"))), events)
	d.wantUsed(t, "sink")
}

// user logs in. What is denied fails the test, and ends it: nobody would answer.
func (d *documented) user(t *testing.T, name string, end func()) *client.Conn {
	t.Helper()
	return dial(t, d.url(name), client.MaxReconnects(-1), client.ReconnectBufSize(-1),
		client.ErrorHandler(func(_ *client.Conn, _ *client.Subscription, err error) {
			if errors.Is(err, client.ErrPermissionViolation) {
				t.Errorf("user %s: %v", name, err)
				end()
			}
		}))
}

// TestNATSJournalPermissions lives through all that a journal does with the permissions
// that docs/ha.md lists for it: the lease, a first start, events, objects beyond the
// limit of messages, deletions and their purge, dead letters, a restart, a replay.
func TestNATSJournalPermissions(t *testing.T) {
	d := startDocumented(t, "../../docs/ha.md")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn := d.user(t, "journal", cancel)
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	held, err := lease.Acquire(ctx, conn, lease.Options{Bucket: "INFORMD_LEASE", Key: "writer.test", Holder: "test", TTL: 2 * time.Second, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	openJournal := func() *stream.Journal {
		t.Helper()
		j, err := stream.Open(ctx, stream.Config{
			Conn: conn, Cluster: "test", Stream: "INFORMD", SubjectPrefix: "k8s", HistoryPerObject: 16, Compression: true,
			DeletedRetention: time.Millisecond, ScanInterval: 100 * time.Millisecond, Fence: held.Check, Logger: logger,
		})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := openJournal()
	if err := j.Bind(ctx, "cluster-uid"); err != nil {
		t.Fatal(err)
	}
	events := append(sinktest.Events(60), large(t))
	cursor, err := j.Open("hook", journal.FromNow)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(ctx, events); err != nil {
		t.Fatal(err)
	}
	readAll(ctx, t, cursor, len(events))
	if err := j.Mark(ctx, "core/pods", []byte("mark")); err != nil {
		t.Fatal(err)
	}
	if err := j.Owned(ctx); err != nil {
		t.Errorf("Owned: %v", err)
	}
	letters := j.Letters("hook")
	if err := letters.Put(ctx, []byte("letter")); err != nil {
		t.Fatal(err)
	}
	if err := letters.Each(ctx, func(number uint64, _ []byte) error { return letters.Drop(ctx, number) }); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(cursor.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}

	j = openJournal()
	if _, err := j.Restore(ctx, "core/pods", func(event.Event) {}); err != nil {
		t.Fatal(err)
	}
	if last, found, err := j.Last(ctx, &events[len(events)-1]); !found || err != nil || string(last.Data) != string(events[len(events)-1].Data) {
		t.Errorf("the large object: found %t, %d bytes, %v", found, len(last.Data), err)
	}
	if cursor, err = j.Open("hook", journal.FromNow); err != nil {
		t.Fatal(err)
	}
	rewinder, ok := cursor.(journal.Rewinder)
	if !ok {
		t.Fatal("the cursor cannot go back")
	}
	if _, err := rewinder.Rewind(ctx, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	readAll(ctx, t, cursor, 5)
	forget(ctx, t, conn)
	d.wantUsed(t, "journal") // the purge of deleted objects included, which the janitor does
	if err := errors.Join(cursor.Close(), j.Close(), held.Release(ctx)); err != nil {
		t.Error(err)
	}
}

// large is an event that no message can carry, however compressed.
func large(t *testing.T) event.Event {
	t.Helper()
	noise := make([]byte, 3<<20)
	if _, err := io.ReadFull(rand.Reader, noise); err != nil {
		t.Fatal(err)
	}
	e := sinktest.Big(1, 10)[0]
	e.Data = event.CloseData(fmt.Appendf(event.OpenData(nil), `{"noise":%q}`, base64.StdEncoding.EncodeToString(noise)))
	return e
}

// readAll reads and commits at least n entries.
func readAll(ctx context.Context, t *testing.T, c journal.Cursor, n int) {
	t.Helper()
	for read := 0; read < n; {
		entries, err := c.Read(ctx, 64)
		if err != nil {
			t.Fatal(err)
		}
		read += len(entries)
		if err := c.Commit(ctx, entries[len(entries)-1].Seq); err != nil {
			t.Fatal(err)
		}
	}
}

// forget removes the objects as the janitor does when their events have been gone for
// long.
func forget(ctx context.Context, t *testing.T, conn *client.Conn) {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	store, err := js.ObjectStore(ctx, "INFORMD_OBJECTS")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := store.List(ctx)
	if err != nil || len(objects) == 0 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	for _, object := range objects {
		if err := store.Delete(ctx, object.Name); err != nil {
			t.Fatal(err)
		}
	}
}
