package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/test/natsserver"
)

// users is the configuration of a server with two users, one of whom may only read.
const users = `
authorization {
  users: [
    {user: informd, password: right}
    {user: reader, password: right, permissions: {publish: {deny: "$JS.API.STREAM.CREATE.>"}}}
  ]
}`

// withUser puts a user into a server's URL.
func withUser(url, user string) string { return strings.Replace(url, "nats://", "nats://"+user+"@", 1) }

// TestJournalRefusesCredentials: informd names the keys to check when the journal's server refuses
// it, at the start and while it runs, and works once that is corrected on the server.
func TestJournalRefusesCredentials(t *testing.T) {
	for name, tt := range map[string]struct{ user, journal, want string }{
		"password":   {"informd:wrong", "", "check journal.auth, or the user in journal.servers"},
		"permission": {"reader:right", "", "the server denies a permission"},
	} {
		t.Run(name, func(t *testing.T) {
			server := natsserver.Start(t, natsserver.Options{Config: users, Connect: []nats.Option{nats.UserInfo("informd", "right")}})
			d := newInformd(t, setup{kubeconfig: unreachable(t), resources: "- {resource: pods}", journal: natsJournal(withUser(server.URL(), tt.user))})
			d.start()
			d.expectProblem(tt.want)
		})
	}
	t.Run("creds file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "user.creds")
		if err := os.WriteFile(file, []byte("no credentials"), 0o600); err != nil {
			t.Fatal(err)
		}
		server := natsserver.Start(t, natsserver.Options{})
		d := newInformd(t, setup{
			kubeconfig: unreachable(t), resources: "- {resource: pods}",
			journal: fmt.Sprintf("type: nats, servers: [%q], auth: {credsFile: %q}", server.URL(), file),
		})
		d.refuses("journal: read auth.credsFile " + file)
	})
}

// TestCredentialsWithdrawn: the server stops to accept informd's password while it runs.
func TestCredentialsWithdrawn(t *testing.T) {
	r := newRig(t)
	server := natsserver.Start(t, natsserver.Options{Config: users, Connect: []nats.Option{nats.UserInfo("informd", "right")}})
	d := newInformd(t, r.setup(natsJournal(withUser(server.URL(), "informd:right"))))
	d.start()
	d.waitForLive(len(r.kinds))
	config := filepath.Join(server.Dir(), "nats.conf")
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	changePassword := func(from, to string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(strings.ReplaceAll(string(before), from, to)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(server.PID(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	changePassword("user: informd, password: right", "user: informd, password: new")
	d.expectProblem("check journal.auth, or the user in journal.servers")
	changePassword("", "")
	eventually(t, "ready again", func() bool {
		_, code, err := d.get("/readyz")
		return err == nil && code == http.StatusOK
	})
	r.write(10)
	eventually(t, "file complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
}

// expectProblem waits until /readyz and the log say what is wrong with the journal.
func (d *informd) expectProblem(want string) {
	d.t.Helper()
	eventually(d.t, "readiness says "+want, func() bool {
		body, code, err := d.get("/readyz")
		return err == nil && code == http.StatusServiceUnavailable && strings.Contains(string(body), want)
	})
	eventually(d.t, "the log says "+want, func() bool { return strings.Contains(d.stderr.String(), want) })
}
