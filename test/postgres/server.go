package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/informd/informd/test/cluster/proc"
)

// The login and the database of every server.
const (
	User     = "informd"
	Password = "of-the-test"
	Database = "postgres"
)

// The versions of PostgreSQL from Maven Central: the oldest and the newest that the sink supports.
const (
	Oldest = "13"
	Newest = "18"
)

// Options of a server. The zero value is a server that does not wait for the disk, which only a power loss would show.
type Options struct {
	// Version is the major version of a server from Maven Central, such as Oldest. Default: that of Debian.
	Version string
	// Settings are parameters of the server.
	Settings map[string]string
	// Durable has the server wait for the disk, as by default.
	Durable bool
	// DataDir keeps the data, such as a small file system. It must be empty. Default: in the temp dir.
	DataDir string
	// CertFile and KeyFile turn on TLS.
	CertFile, KeyFile string
}

// Server is one PostgreSQL.
type Server struct {
	process *proc.Process
	dir     *proc.Dir
	port    *proc.Port
	// binaries is the directory of its programs.
	binaries, data string
	user           *account

	mu     sync.Mutex
	frozen []int
}

// New makes a database, starts its server and blocks until it answers. ctx bounds the start only. After an error
// nothing is left; otherwise the caller has to Close.
func New(ctx context.Context, o Options) (*Server, error) {
	s, err := newServer(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Start is New for tests: it fails the test on an error, and closes the server at the end of the test. If the test
// failed by then, the end of the log is logged.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("postgres\n%s", s.process.LogTail())
		}
		if err := s.Close(); err != nil {
			t.Errorf("close postgres: %v", err)
		}
	})
	return s
}

// Close ends the server and removes its files.
func (s *Server) Close() error { return errors.Join(s.Thaw(), s.Kill(), s.close()) }

func newServer(ctx context.Context, o Options) (*Server, error) {
	s := &Server{}
	var err error
	if s.user, err = unprivileged(); err == nil {
		if s.dir, err = proc.TempDir("postgres"); err == nil {
			s.port, err = proc.FreePort()
		}
	}
	if err == nil {
		s.binaries, err = s.findBinaries(ctx, o.Version)
	}
	if err == nil {
		err = s.initialise(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	args := []string{"-D", s.data, "-p", s.portNumber(), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
	settings := map[string]string{"max_connections": "50"}
	if !o.Durable {
		settings["fsync"] = "off"
	}
	if o.CertFile != "" {
		settings["ssl"], settings["ssl_cert_file"], settings["ssl_key_file"] = "on", s.dir.Join("home", "server.crt"), s.dir.Join("home", "server.key")
	}
	maps.Copy(settings, o.Settings)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", key+"="+settings[key])
	}
	s.process = proc.New(proc.Spec{
		Name: "postgres", Path: filepath.Join(s.binaries, "postgres"), Args: args, Log: s.dir.Join("postgres.log"), User: s.user.credential(),
		Ready: func(ctx context.Context) error { return ping(ctx, s.Address()) },
	})
	return s, nil
}

// initialise makes the data directory.
func (s *Server) initialise(ctx context.Context, o Options) error {
	if err := os.Chmod(s.dir.Join(), 0o711); err != nil {
		return err
	}
	home := s.dir.Join("home")
	if err := errors.Join(os.Mkdir(home, 0o700), s.user.own(home)); err != nil {
		return err
	}
	password := filepath.Join(home, "password")
	if err := errors.Join(os.WriteFile(password, []byte(Password+"\n"), 0o600), s.user.own(password)); err != nil {
		return err
	}
	for name, from := range map[string]string{"server.crt": o.CertFile, "server.key": o.KeyFile} {
		if err := s.give(from, filepath.Join(home, name)); err != nil {
			return err
		}
	}
	s.data = filepath.Join(home, "data")
	if o.DataDir != "" {
		s.data = o.DataDir
		if err := s.user.own(s.data); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.binaries, "initdb"), "-D", s.data, "-U", User, "--pwfile", password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
	cmd.Dir = home
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user.credential()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// give copies a file, if there is one, for the server's user alone.
func (s *Server) give(from, to string) error {
	if from == "" {
		return nil
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, text, 0o600), s.user.own(to))
}

// Address is where the server listens, as host:port.
func (s *Server) Address() string { return s.port.Address() }

func (s *Server) portNumber() string {
	_, port, _ := strings.Cut(s.Address(), ":")
	return port
}

// Start starts the server again, and blocks until it answers.
func (s *Server) Start(ctx context.Context) error {
	return s.process.Start(ctx)
}

// Stop ends the server as an operator does, without waiting for its clients.
func (s *Server) Stop() error {
	if s.process.PID() == 0 {
		return nil
	}
	// SIGINT: a fast shutdown.
	return errors.Join(syscall.Kill(s.process.PID(), syscall.SIGINT), s.process.Stop())
}

// Backup copies the data of the server, which is down meanwhile.
func (s *Server) Backup(ctx context.Context) error {
	return errors.Join(s.Stop(), copyDir(ctx, s.data, s.dir.Join("home", "backup")), s.Start(ctx))
}

// Restore has the server continue with the data of the last Backup.
func (s *Server) Restore(ctx context.Context) error {
	return errors.Join(s.Kill(), os.RemoveAll(s.data), copyDir(ctx, s.dir.Join("home", "backup"), s.data), s.Start(ctx))
}

func copyDir(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the data: %w: %s", err, out)
	}
	return nil
}

// Kill ends the server and all its processes at once.
func (s *Server) Kill() error {
	children := s.children()
	if err := s.process.Kill(); err != nil {
		return err
	}
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
	return waitGone(children)
}

// Freeze suspends all processes of the server. Its connections stay open and silent.
func (s *Server) Freeze() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.Freeze(); err != nil {
		return err
	}
	s.frozen = s.children()
	for _, pid := range s.frozen {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	return nil
}

// Thaw has a frozen server continue. It does nothing to one that is not frozen.
func (s *Server) Thaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range s.frozen {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	s.frozen = nil
	if err := s.process.Thaw(); !errors.Is(err, proc.ErrNotRunning) {
		return err
	}
	return nil
}

// children are the processes of the server besides its first.
func (s *Server) children() []int {
	pid := s.process.PID()
	if pid == 0 {
		return nil
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // absent if it has just ended
	var all []int
	for field := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// waitGone waits until processes have ended: a server does not start beside the rest of an earlier one.
func waitGone(pids []int) error {
	deadline := time.Now().Add(30 * time.Second)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d of postgres has not ended", pid)
			}
			<-poll.C
		}
	}
	return nil
}

// alive reports whether a process exists. One that has ended, and whose parent has not noticed yet, does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func (s *Server) close() error {
	if s.port != nil {
		s.port.Release()
	}
	if s.dir != nil {
		return s.dir.Close()
	}
	return nil
}

// ping logs in and asks for something.
func ping(ctx context.Context, address string) error {
	conn, err := Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT 1").ReadAll()
	return errors.Join(err, conn.Close(ctx))
}

// Connect logs in to a server or a pooler.
func Connect(ctx context.Context, address string) (*pgconn.PgConn, error) {
	host, port, _ := strings.Cut(address, ":")
	return pgconn.Connect(ctx, fmt.Sprintf("host=%s port=%s user=%s password=%s dbname=%s sslmode=disable", host, port, User, Password, Database))
}

// Query runs statements on a connection of its own and returns the rows of the last one, NULL as "<null>".
func (s *Server) Query(t testing.TB, sql string) [][]string {
	t.Helper()
	rows, err := s.TryQuery(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// TryQuery is Query for a server that may be down.
func (s *Server) TryQuery(ctx context.Context, sql string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := Connect(ctx, s.Address())
	if err != nil {
		return nil, err
	}
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err = errors.Join(err, conn.Close(ctx)); err != nil || len(results) == 0 {
		return nil, err
	}
	var rows [][]string
	for _, row := range results[len(results)-1].Rows {
		texts := make([]string, len(row))
		for i, value := range row {
			if texts[i] = string(value); value == nil {
				texts[i] = "<null>"
			}
		}
		rows = append(rows, texts)
	}
	return rows, nil
}
