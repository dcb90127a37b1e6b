package store

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestServerUnavailable: a server that refuses informd needs an operator, an unreachable one
// does not.
func TestServerUnavailable(t *testing.T) {
	for text, level := range map[string]string{
		"dial tcp 127.0.0.1:4222: connect: connection refused": "level=WARN",
		"nats: Authorization Violation":                        "level=ERROR",
	} {
		var log strings.Builder
		NewHealth().complain(errors.New(text), slog.New(slog.NewTextHandler(&log, nil)))
		if !strings.Contains(log.String(), level) {
			t.Errorf("%s: %s, want %s", text, log.String(), level)
		}
	}
}
