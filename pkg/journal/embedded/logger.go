package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// serverLogger hands the server's lines on. What the server calls a notice is
// about its own start and stop, and of no interest in a program's log. A line that is
// no trouble of the server is worth less than the server thinks: see worth.
type serverLogger struct {
	logger *slog.Logger
	fatal  atomic.Pointer[string] // the last reason for which the server gave up
}

func (l *serverLogger) log(level slog.Level, format string, args []any) {
	if l.logger.Enabled(context.Background(), level) {
		l.logger.Log(context.Background(), level, "nats-server", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// logWorth is log for what the server takes for trouble.
func (l *serverLogger) logWorth(level slog.Level, format string, args []any) {
	text := fmt.Sprintf(format, args...)
	l.log(worth(level, text), "%s", []any{text})
}

// worth is the level of a line that the server has at that level.
func worth(level slog.Level, text string) slog.Level {
	switch {
	case strings.Contains(text, "Plaintext passwords detected"):
		return slog.LevelDebug // they are made for this process alone, and are in no file
	case strings.Contains(text, "Recovering stream state from index errored: prior state file"),
		strings.Contains(text, "Stream state outdated, last block has additional entries"):
		return slog.LevelInfo // so it is after every end that was none of its own
	case strings.Contains(text, "Publish Violation"), strings.Contains(text, "Subscription Violation"):
		return min(level, slog.LevelWarn) // a reader's mistake
	default:
		return level
	}
}

func (l *serverLogger) Noticef(format string, args ...any) { l.log(slog.LevelDebug, format, args) }
func (l *serverLogger) Warnf(format string, args ...any)   { l.logWorth(slog.LevelWarn, format, args) }

func (l *serverLogger) Errorf(format string, args ...any) { l.logWorth(slog.LevelError, format, args) }
func (l *serverLogger) Debugf(format string, args ...any) { l.log(slog.LevelDebug, format, args) }

// Tracef is about every protocol line; the server is not asked for it.
func (l *serverLogger) Tracef(string, ...any) {}

// Fatalf is the server's word for a failed start; it returns then. The text
// becomes the error of the start.
func (l *serverLogger) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.fatal.Store(&text)
	l.log(slog.LevelError, "%s", []any{text})
}
