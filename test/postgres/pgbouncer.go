package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/test/cluster/proc"
)

// Pooler is a PgBouncer in transaction mode: each transaction of a client may run on another connection to the server.
// The methods of [proc.Process] are its own: Kill, Start, Freeze, Thaw.
type Pooler struct {
	*proc.Process
	port *proc.Port
}

// Address is where the pooler listens, as host:port.
func (p *Pooler) Address() string { return p.port.Address() }

// StartPooler starts a PgBouncer before a server, and ends it at the end of the test.
func StartPooler(t testing.TB, s *Server) *Pooler {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("find PgBouncer: %v: run make postgres", err)
	}
	p := &Pooler{}
	if p.port, err = proc.FreePort(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.port.Release)
	home := s.dir.Join("home")
	users, config := filepath.Join(home, "users.txt"), filepath.Join(home, "pgbouncer.ini")
	_, port, _ := strings.Cut(p.Address(), ":")
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n"+
		"pool_mode = transaction\nauth_type = scram-sha-256\nauth_file = %s\ndefault_pool_size = 4\nserver_login_retry = 1\n", s.portNumber(), port, users)
	login := fmt.Sprintf("%q %q\n", User, Password)
	err = errors.Join(os.WriteFile(users, []byte(login), 0o600), os.WriteFile(config, []byte(text), 0o600), s.user.own(users), s.user.own(config))
	if err != nil {
		t.Fatal(err)
	}
	p.Process = proc.New(proc.Spec{
		Name: "pgbouncer", Path: path, Args: []string{config}, Log: s.dir.Join("pgbouncer.log"), User: s.user.credential(),
		Ready: func(ctx context.Context) error { return ping(ctx, p.Address()) },
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pgbouncer\n%s", p.LogTail())
		}
		if err := errors.Join(p.Thaw(), p.Kill()); err != nil && !errors.Is(err, proc.ErrNotRunning) {
			t.Errorf("close pgbouncer: %v", err)
		}
	})
	if err := p.Process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}
