package sinks_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

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
	must(t, err)
	_, text, _ := strings.Cut(string(page), "```conf\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatalf("%s has no configuration of a server", file)
	}
	text = strings.ReplaceAll(text, "prod-eu1", "test") // the cluster of the samples
	t.Setenv("SINK_PASSWORD", "p")
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
	must(t, root.Flush())
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
	sinktest.Deliver(t, open(t, config(t, d.url("sink"), useJetStream)), events)
	wantOnce(t, jetStream(t, dial(t, d.server.URL(), client.UserInfo("root", "r"))), events)
	d.wantUsed(t, "sink")
}
