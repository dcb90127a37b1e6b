package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is for a busy machine: a second start of the demo shows its first event after 10 seconds.
const patience = 2 * time.Minute

// shown is what the demo writes to both outputs.
type shown struct {
	mu    sync.Mutex
	lines []string
	news  chan struct{}
}

func (s *shown) read(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		s.mu.Lock()
		s.lines = append(s.lines, lines.Text())
		s.mu.Unlock()
		select {
		case s.news <- struct{}{}:
		default:
		}
	}
}

func (s *shown) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// wait returns the first match of a pattern.
func (s *shown) wait(t *testing.T, pattern string) []string {
	t.Helper()
	deadline := time.After(patience)
	for {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(s.text()); found != nil {
			return found
		}
		select {
		case <-s.news:
		case <-deadline:
			t.Fatalf("the demo does not show %s:\n%s", pattern, s.text())
		}
	}
}

// TestDemo: the demo shows events and a link to the page, its commands work, and it stops with an
// interrupt.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	informd, demo := filepath.Join(dir, "informd"), filepath.Join(dir, "demo")
	for out, pkg := range map[string]string{informd: "github.com/informd/informd/cmd/informd", demo: "."} {
		if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	cmd := exec.CommandContext(t.Context(), demo, "-informd", informd)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close() // the demo has its own
	s := &shown{news: make(chan struct{}, 1)}
	var reading sync.WaitGroup
	reading.Go(func() { s.read(out) })
	defer func() {
		_ = cmd.Process.Kill() // if it has not ended
		reading.Wait()
		_ = out.Close()
	}()

	s.wait(t, `(?m) added .* pods `)
	t.Logf("the first event of a Pod after %s", time.Since(began).Round(100*time.Millisecond))
	link := s.wait(t, `in a browser, with objects: (http://\S+)/#token=(\S+)`)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link[1]+"/history?object=deployments.apps/"+namespace+"/shop", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+link[2])
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), `"shop"`) {
		t.Errorf("history: %s %v\n%s", answer.Status, err, text)
	}
	config := s.wait(t, `export INFORMD_CONFIG=(\S+)`)[1]
	if text, err := exec.CommandContext(t.Context(), informd, "status", "--config", config).CombinedOutput(); err != nil {
		t.Errorf("informd status: %v\n%s", err, text)
	}

	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v\n%s", err, s.text())
	}
	if _, err := os.Stat(filepath.Dir(config)); !os.IsNotExist(err) {
		t.Errorf("the demo leaves %s: %v", filepath.Dir(config), err)
	}
}
