package embedded_test

import (
	"cmp"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/journal/embedded"
)

// logged is a config with a log of everything.
func logged(dir string) (embedded.Config, *logBuffer) {
	var log logBuffer
	c := config(dir)
	c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return c, &log
}

// line returns the first line with text.
func (l *logBuffer) line(text string) string {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

// What is no trouble of the server is no warning: the passwords that it has made
// itself, and what a reader must not do.
func TestLogOfTheListener(t *testing.T) {
	c, log := logged(t.TempDir())
	c.Listen = "127.0.0.1:0"
	s := start(t, c)
	create(t, s)
	if line := log.line("Plaintext passwords"); !strings.Contains(line, "level=DEBUG") {
		t.Errorf("about passwords: %q", line)
	}
	refused := make(chan struct{}, 1)
	reader, err := nats.Connect(s.URL(), nats.Timeout(deadline), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {
		select {
		case refused <- struct{}{}:
		default:
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := reader.Publish("k8s.forged", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-refused:
	case <-timeout(t).Done():
		t.Fatal("a reader may publish")
	}
	eventually(t, "a line about the reader", func() bool { return log.line("Publish Violation") != "" })
	if line := log.line("Publish Violation"); !strings.Contains(line, "level=WARN") {
		t.Errorf("about the reader: %q", line)
	}
	if line := log.line("level=ERROR"); line != "" {
		t.Errorf("an error: %q", line)
	}
}

// After a kill the index is older than the messages, as it has to be. The server says
// that in one of two ways.
func TestLogAfterAKill(t *testing.T) {
	dir := t.TempDir()
	kill := func() { writer(t, dir, math.MaxInt, func(n int) bool { return n%1000 < 500 }) }
	kill()
	// One that ends by itself leaves an index, which the next kill makes old.
	stop(t, start(t, config(dir)))
	kill()
	c, log := logged(dir)
	start(t, c)
	if line := cmp.Or(log.line("Recovering stream state"), log.line("Stream state outdated")); !strings.Contains(line, "level=INFO") {
		t.Errorf("about the index: %q", line)
	}
	for _, level := range []string{"level=WARN", "level=ERROR"} {
		if line := log.line(level); line != "" {
			t.Errorf("trouble: %q", line)
		}
	}
}
