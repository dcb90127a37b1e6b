package admin_test

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/informd/informd/internal/admin"
)

func onSocket(path string) admin.Options {
	o := options()
	o.Listen, o.Socket, o.Operator = "", path, &operator{}
	return o
}

func requireAnswer(t *testing.T, path string) {
	t.Helper()
	if code, body := request(t, asking(t, nil, path, ""), "POST /verify", "informd", nil); code != http.StatusOK {
		t.Errorf("%s answers %d %s", path, code, body)
	}
}

// TestSocketIsPrivate: the owner alone can connect, also while the process lets
// everybody use its files, and the socket goes with the server.
func TestSocketIsPrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := t.TempDir()
	for name, path := range map[string]string{
		"short": filepath.Join(dir, "new", "admin.sock"),
		"long":  filepath.Join(dir, strings.Repeat("d", 120), "admin.sock"),
	} {
		s := admin.New(onSocket(path))
		must(t, s.Start())
		requireAnswer(t, path)
		for path, want := range map[string]fs.FileMode{path: 0o600 | fs.ModeSocket, path + ".lock": 0o600, filepath.Dir(path): 0o700 | fs.ModeDir} {
			info, err := os.Lstat(path)
			must(t, err)
			if info.Mode() != want {
				t.Errorf("%s: %s has mode %s", name, path, info.Mode())
			}
		}
		must(t, s.Shutdown(t.Context()))
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the socket is left: %v", name, err)
		}
	}
}

// TestSocketOfAKilledProcess is replaced; one in use, and what is no socket, is not.
func TestSocketOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
	first := start(t, onSocket(stale))
	requireAnswer(t, stale)
	if err := admin.New(onSocket(stale)).Start(); err == nil || !strings.Contains(err.Error(), "another informd uses it") {
		t.Errorf("a second server on the same socket: %v", err)
	}
	requireAnswer(t, stale)

	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	must(t, os.WriteFile(file, []byte("mine"), 0o600))
	must(t, os.Symlink(file, link))
	for _, path := range []string{file, link} {
		if err := admin.New(onSocket(path)).Start(); err == nil || !strings.Contains(err.Error(), "no socket") {
			t.Errorf("%s: %v", path, err)
		}
		o := onSocket(path)
		o.SocketOptional = true
		start(t, o) // without operators
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("the file has %q (%v)", text, err)
	}

	// A socket that took the place of the server's own stays.
	must(t, os.Remove(stale))
	other, err := net.Listen("unix", stale) //nolint:noctx // as short as the test
	must(t, err)
	defer other.Close() //nolint:errcheck // of a test
	must(t, first.Shutdown(t.Context()))
	if _, err := os.Lstat(stale); err != nil {
		t.Errorf("the other socket: %v", err)
	}
}
