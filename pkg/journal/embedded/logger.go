package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// serverLogger hands the server's lines on. What the server calls a notice is
// about its own start and stop, and of no interest in a program's log.
type serverLogger struct {
	logger *slog.Logger
	fatal  atomic.Pointer[string] // the last reason for which the server gave up
}

func (l *serverLogger) log(level slog.Level, format string, args []any) {
	if l.logger.Enabled(context.Background(), level) {
		l.logger.Log(context.Background(), level, "nats-server", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (l *serverLogger) Noticef(format string, args ...any) { l.log(slog.LevelDebug, format, args) }
func (l *serverLogger) Warnf(format string, args ...any)   { l.log(slog.LevelWarn, format, args) }
func (l *serverLogger) Errorf(format string, args ...any)  { l.log(slog.LevelError, format, args) }
func (l *serverLogger) Debugf(format string, args ...any)  { l.log(slog.LevelDebug, format, args) }

// Tracef is about every protocol line; the server is not asked for it.
func (l *serverLogger) Tracef(string, ...any) {}

// Fatalf is the server's word for a failed start; it returns then. The text
// becomes the error of the start.
func (l *serverLogger) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.fatal.Store(&text)
	l.log(slog.LevelError, "%s", []any{text})
}
