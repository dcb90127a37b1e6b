package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/internal/admin"
)

// fakeAdmin is the admin server of an informd that can go away.
type fakeAdmin struct {
	address string
	asked   atomic.Int64
	away    atomic.Bool
	status  atomic.Pointer[admin.Status]
}

func startAdmin(t *testing.T) *fakeAdmin {
	t.Helper()
	f := &fakeAdmin{}
	f.status.Store(busy())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		f.asked.Add(1)
		if f.away.Load() {
			panic(http.ErrAbortHandler) // closes the connection
		}
		if err := json.NewEncoder(w).Encode(f.status.Load()); err != nil {
			t.Error(err)
		}
	})
	f.address = serve(t, mux)
	return f
}

func serve(t *testing.T, h http.Handler) (address string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// goodConfig writes a config that informd could run with.
func goodConfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// screen is what a command has written so far.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-poll.C
	}
}

// interrupt ends a command as Ctrl-C does, and returns its exit code. The command
// must have shown something: before, the signal would end the test.
func interrupt(t *testing.T, ended <-chan int) int {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-ended:
		return code
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
		return 0
	}
}

func TestStatusWatch(t *testing.T) {
	f := startAdmin(t)
	var out, errs screen
	ended := make(chan int, 1)
	args := []string{"status", "-w", "--interval", "5ms", "-c", goodConfig(t), "--server", "http://" + f.address}
	go func() { ended <- run(t.Context(), args, &out, &errs) }()
	eventually(t, "shown again", func() bool { return strings.Count(out.String(), "core/pods@shop") >= 2 })

	f.away.Store(true)
	eventually(t, "it says that informd is away", func() bool { return strings.Contains(errs.String(), "does not answer") })
	asked, shown := f.asked.Load(), len(out.String())
	eventually(t, "asked again", func() bool { return f.asked.Load() >= asked+3 })
	if len(out.String()) != shown {
		t.Errorf("shown while informd is away:\n%s", out.String()[shown:])
	}

	back := busy()
	back.Version = "v0.2.0"
	f.status.Store(back)
	f.away.Store(false)
	eventually(t, "shown when it is back", func() bool { return strings.Contains(out.String(), "informd v0.2.0") })
	f.away.Store(true)
	eventually(t, "it says that informd is away again", func() bool { return strings.Count(errs.String(), "does not answer") == 2 })
	if code := interrupt(t, ended); code != exitOK {
		t.Errorf("exit %d\n%s", code, errs.String())
	}
	if n := strings.Count(errs.String(), "\n"); n != 2 {
		t.Errorf("two absences in %d lines:\n%s", n, errs.String())
	}
	screens := strings.Split(out.String(), "---\n")
	for i, s := range screens {
		if !strings.HasPrefix(s, "informd v0.") || !strings.HasSuffix(s, "the disk is full\n") {
			t.Errorf("screen %d of %d: %q", i, len(screens), s)
		}
	}
}

// TestStatusWatchJSON: nothing stands between the documents.
func TestStatusWatchJSON(t *testing.T) {
	f := startAdmin(t)
	var out, errs screen
	ended := make(chan int, 1)
	args := []string{"status", "-w", "-o", "json", "--interval", "5ms", "-c", goodConfig(t), "--server", "http://" + f.address}
	go func() { ended <- run(t.Context(), args, &out, &errs) }()
	eventually(t, "shown again", func() bool { return strings.Count(out.String(), "core/pods@shop") >= 3 })
	if code := interrupt(t, ended); code != exitOK || errs.String() != "" {
		t.Errorf("exit %d\n%s", code, errs.String())
	}
	for documents := json.NewDecoder(strings.NewReader(out.String())); documents.More(); {
		var s admin.Status
		if err := documents.Decode(&s); err != nil || s.Cluster != "prod-eu1" {
			t.Fatalf("%v, cluster %q", err, s.Cluster)
		}
	}
}

// TestStatusWatchOnTerminal: every screen takes the place of the one before, and a
// message stays below the last one.
func TestStatusWatchOnTerminal(t *testing.T) {
	f := startAdmin(t)
	var shown screen // standard output and standard error, as on a terminal
	v := statusView{client: client{base: "http://" + f.address, http: http.DefaultClient}, std: streams{out: &shown, err: &shown}, format: &format{value: formatTable}, terminal: true}
	ended := make(chan int, 1)
	go func() {
		if err := v.follow(t.Context(), 5*time.Millisecond); err != nil {
			t.Error(err)
		}
		ended <- exitOK
	}()
	eventually(t, "shown again", func() bool { return strings.Count(shown.String(), "core/pods@shop") >= 2 })
	f.away.Store(true)
	eventually(t, "it says that informd is away", func() bool { return strings.Contains(shown.String(), "does not answer") })
	interrupt(t, ended)
	screens := strings.Split(shown.String(), clearScreen)
	for i, s := range screens[1:] {
		if checkHarmless(t, s); !strings.HasPrefix(s, "informd v0.1.0") {
			t.Errorf("screen %d: %q", i, s)
		}
	}
	if last := screens[len(screens)-1]; screens[0] != "" || !strings.Contains(last, "core/pods@shop") || !strings.Contains(last, "does not answer") {
		t.Errorf("before the first screen: %q, the last one:\n%s", screens[0], last)
	}
}

// TestStatusWatchEndsWithItsOutput: nobody reads any more.
func TestStatusWatchEndsWithItsOutput(t *testing.T) {
	f := startAdmin(t)
	v := statusView{client: client{base: "http://" + f.address, http: http.DefaultClient}, std: streams{out: closed{}, err: closed{}}, format: &format{value: formatTable}}
	if err := v.follow(t.Context(), time.Millisecond); err == nil {
		t.Error("no error")
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, os.ErrClosed }
