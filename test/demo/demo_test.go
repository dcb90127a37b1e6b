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

// shown is what the demo writes to one output.
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

// demo is a running demo, with the binary of informd that it runs.
type demo struct {
	cmd         *exec.Cmd
	informd     string
	events      *shown // on standard output
	hints       *shown // on standard error
	environment string // the file that the hints name
}

// startDemo builds the demo and informd, and starts the demo.
func startDemo(t *testing.T) *demo {
	t.Helper()
	dir := t.TempDir()
	d := &demo{informd: filepath.Join(dir, "informd")}
	program := filepath.Join(dir, "demo")
	for out, pkg := range map[string]string{d.informd: "github.com/informd/informd/cmd/informd", program: "."} {
		if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	d.cmd = exec.CommandContext(t.Context(), program, "-informd", d.informd, "-remind", "1s")
	// After a failure of the test as well, the demo ends the processes that it started.
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(os.Interrupt) }
	d.cmd.WaitDelay = 2 * grace
	var reading sync.WaitGroup
	output := func() (*shown, *os.File) {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = out.Close() })
		s := &shown{news: make(chan struct{}, 1)}
		reading.Go(func() { s.read(out) })
		return s, in
	}
	var stdout, stderr *os.File
	d.events, stdout = output()
	d.hints, stderr = output()
	d.cmd.Stdout, d.cmd.Stderr = stdout, stderr
	err := d.cmd.Start()
	_, _ = stdout.Close(), stderr.Close() // the demo has copies
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Wait() // if stop has not
		reading.Wait()
	})
	return d
}

// ask runs a command of informd in a shell that has read the file of the hints.
func (d *demo) ask(t *testing.T, args ...string) (string, error) {
	t.Helper()
	shell := append([]string{"-c", `. "$0" && exec "$@"`, d.environment, d.informd}, args...)
	cmd := exec.CommandContext(t.Context(), "sh", shell...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// stop interrupts the demo, which must leave no file.
func (d *demo) stop(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v\n%s", err, d.hints.text())
	}
	if dir := filepath.Dir(d.environment); exists(dir) {
		t.Errorf("the demo leaves %s", dir)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !os.IsNotExist(err)
}

// TestDemo: the demo shows events and hints, the commands of the hints work, and it stops with
// an interrupt.
func TestDemo(t *testing.T) {
	began := time.Now()
	d := startDemo(t)
	d.environment = d.hints.wait(t, `(?m)^demo: {5}\. (\S+)$`)[1]
	d.events.wait(t, `(?m) added .* pods `)
	t.Logf("the first event of a Pod after %s, builds included", time.Since(began).Round(100*time.Millisecond))

	link := d.hints.wait(t, `(http://\S+)/#token=(\S+)`)
	reminder := `(?m)^demo: in another terminal: \. ` + regexp.QuoteMeta(d.environment) + ` .*` + regexp.QuoteMeta(link[0]) + `$`
	d.hints.wait(t, reminder+`[\s\S]*`+reminder)
	if strings.Contains(d.events.text(), link[0]) {
		t.Error("standard output has hints between the events")
	}
	readPage(t, link[1], link[2])
	if text, err := d.ask(t, "status"); err != nil {
		t.Errorf("informd status: %v\n%s", err, text)
	}
	d.checkPast(t)
	d.stop(t)
	// Package binary announces each build that is necessary.
	if line := regexp.MustCompile(`(?m)^demo: .*\b(build|builds|built)\b.*`).FindString(d.hints.text()); line != "" {
		t.Errorf("the demo announces a build in any case: %s", line)
	}
}

func readPage(t *testing.T, address, token string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/history?object=deployments.apps/"+namespace+"/"+shop, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), `"shop"`) {
		t.Errorf("history: %s %v\n%s", answer.Status, err, text)
	}
}

// checkPast: the objects in the hints have a past. The Deployment exists after whole rounds, so
// its history is more than a deletion.
func (d *demo) checkPast(t *testing.T) {
	t.Helper()
	deployment := d.hints.wait(t, `bin/informd history (\S+)`)[1]
	deleted := d.hints.wait(t, `bin/informd undelete (\S+)`)[1]
	d.events.wait(t, `(?m) deleted +pods .*web-1 `)
	d.events.wait(t, `(?m) added +pods .*web-2 `) // the next round
	if text, err := d.ask(t, "undelete", deleted); err != nil || !strings.Contains(text, "kind: Pod") {
		t.Errorf("informd undelete %s: %v\n%s", deleted, err, text)
	}
	text, err := d.ask(t, "history", deployment)
	if err != nil || strings.Count(text, " modified ") < 2 || strings.Contains(text, " deleted ") {
		t.Errorf("informd history %s, want several modified events and no deletion: %v\n%s", deployment, err, text)
	}
	if text, err := d.ask(t, "get", deployment); err != nil || !strings.Contains(text, "release: v") {
		t.Errorf("informd get %s: %v\n%s", deployment, err, text)
	}
	if text, err := d.ask(t, "diff", deployment); err != nil || !strings.Contains(text, "\n+") {
		t.Errorf("informd diff %s: %v\n%s", deployment, err, text)
	}
}
