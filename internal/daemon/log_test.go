package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/informd/informd/internal/config"
)

// inEachFormat runs a test with a logger of each format, and with what reads the lines of it.
func inEachFormat(t *testing.T, test func(t *testing.T, logger *slog.Logger, text func() string)) {
	t.Helper()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			test(t, newLogger(&out, config.Log{Level: "info", Format: format}, new(slog.LevelVar)), out.String)
		})
	}
}

// TestLongAttributes holds each attribute of a log line to its limit.
func TestLongAttributes(t *testing.T) {
	inEachFormat(t, func(t *testing.T, logger *slog.Logger, text func() string) {
		long := strings.Repeat("x", 3<<20)
		logger.Warn("request failed", "err", errors.New("list: "+long+": cause"), "names", []string{"a", long}, "n", 7, slog.Group("g", "text", long))
		line := text()
		if len(line) > 4<<10 {
			t.Errorf("the line has %d bytes", len(line))
		}
		for _, part := range []string{"list: xxx", "xxx: cause", "bytes left out", "request failed"} {
			if !strings.Contains(line, part) {
				t.Errorf("the line does not have %q", part)
			}
		}
	})
}

// TestCredentialsInLog: no attribute shows the user or the password of a URL.
func TestCredentialsInLog(t *testing.T) {
	inEachFormat(t, func(t *testing.T, logger *slog.Logger, text func() string) {
		address := &url.URL{Scheme: "https", User: url.UserPassword("someone", "canary"), Host: "host"}
		logger.Warn("request failed", "server", address.String(), "url", address, "err", errors.New("get "+address.String()+": EOF"),
			"stack", "at "+address.String())
		if line := text(); strings.Contains(line, "canary") || strings.Contains(line, "someone") || strings.Count(line, "@host") != 4 {
			t.Errorf("the log says %s", line)
		}
	})
}

// TestHostileCharactersInLog: a terminal that shows the log obeys no character of it.
func TestHostileCharactersInLog(t *testing.T) {
	inEachFormat(t, func(t *testing.T, logger *slog.Logger, text func() string) {
		logger.Warn("object", "name", "\u009b31m\u202e\u2066\x7f")
		if line := text(); strings.ContainsAny(line, "\u009b\u202e\u2066\x7f") || !strings.Contains(line, `\u202e`) {
			t.Errorf("the log says %q", line)
		}
	})
}
