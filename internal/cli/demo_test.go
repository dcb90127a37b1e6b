package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestDemo: without a home, the demo shows events of a cluster that changes and the hashes of a Secret, its page
// has both, and nothing is left when it has ended.
func TestDemo(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("HOME", "/nonexistent")
	ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	out, stdout := io.Pipe()
	errs, stderr := io.Pipe()
	events, hints := bufio.NewReader(out), bufio.NewReader(errs)
	exit := make(chan int, 1)
	began := time.Now()
	go func() {
		code := run(ctx, []string{"demo"}, stdout, stderr)
		_, _ = stdout.Close(), stderr.Close()
		exit <- code
	}()

	link := find(t, hints, regexp.MustCompile(`(http://\S+)/#token=(\S+)`))
	secret := find(t, events, regexp.MustCompile(`"op":"snapshot".*"resource":"secrets".*"data":(.*)`))
	t.Logf("first events after %s", time.Since(began))
	if !regexp.MustCompile(`"password":"hmac-sha256:\w+"`).MatchString(secret[1]) {
		t.Errorf("event of the Secret: %s", secret[0])
	}
	find(t, events, regexp.MustCompile(`"op":"modified".*"resource":"deployments"`))
	go drain(hints)
	go drain(events)
	if page := askDemo(t, link[1]+"/", ""); !strings.Contains(page, "<html") {
		t.Errorf("page: %s", page)
	}
	var past struct{ Events []json.RawMessage }
	text := askDemo(t, link[1]+"/history?object=deployments.apps/shop/web", link[2])
	if err := json.Unmarshal([]byte(text), &past); err != nil || len(past.Events) < 2 {
		t.Errorf("history of the Deployment: %v: %s", err, text)
	}

	for range 3 { // a reader that leaves ends nothing else
		leaveTail(t, link[1], link[2])
	}
	if text := askDemo(t, link[1]+"/status", link[2]); !strings.Contains(text, `"demo"`) {
		t.Errorf("status after tails: %s", text)
	}

	end()
	if code := <-exit; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left of the demo (%v)", left, err)
	}
}

// find reads lines up to the first one that has the pattern.
func find(t *testing.T, from *bufio.Reader, pattern *regexp.Regexp) []string {
	t.Helper()
	var all strings.Builder
	for {
		line, err := from.ReadString('\n')
		all.WriteString(line)
		if found := pattern.FindStringSubmatch(line); found != nil {
			return found
		}
		if err != nil {
			t.Fatalf("no line with %s: %v\n%s", pattern, err, all.String())
		}
	}
}

func drain(from io.Reader) { _, _ = io.Copy(io.Discard, from) }

// leaveTail reads an event, and resets the connection, as the end of a process does that has not read all.
func leaveTail(t *testing.T, link, token string) {
	t.Helper()
	address, err := netip.ParseAddrPort(strings.TrimPrefix(link, "http://"))
	must(t, err)
	conn, err := new(net.Dialer).DialTCP(t.Context(), "tcp", netip.AddrPort{}, address)
	must(t, err)
	fmt.Fprintf(conn, "GET /tail HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
	find(t, bufio.NewReader(conn), regexp.MustCompile(`"specversion"`))
	if err := errors.Join(conn.SetLinger(0), conn.Close()); err != nil {
		t.Error(err)
	}
}

func askDemo(t *testing.T, url, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %s %v", url, answer.Status, err)
	}
	return string(text)
}
