package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// serverLogger hands the server's lines on. What the server calls a notice is
// about its own start and stop, and of no interest in a program's log. A line that is
// no trouble of the server is worth less than the server thinks: see worth. Lines about
// clients, which clients cause, are bounded.
type serverLogger struct {
	logger *slog.Logger
	fatal  atomic.Pointer[string] // the reason for which the server gave up
	client *regexp.Regexp         // how the server names a client in a line
	floods chan<- uint64          // takes clients whose requests are refused without end

	mu sync.Mutex
	// minute and second are when the counts began.
	minute, second time.Time
	lines, omitted int
	refused        map[uint64]int // requests of the second, by client
}

const (
	// linesPerMinute bounds the lines about clients.
	linesPerMinute = 10
	// refusedPerSecond bounds the refused requests of a client.
	refusedPerSecond = 100
)

func newServerLogger(logger *slog.Logger, floods chan<- uint64) *serverLogger {
	return &serverLogger{logger: logger, floods: floods, client: regexp.MustCompile(`\bcid:([0-9]+)\b`), refused: make(map[uint64]int)}
}

func (l *serverLogger) log(level slog.Level, format string, args []any) {
	if l.logger.Enabled(context.Background(), level) {
		l.logger.Log(context.Background(), level, "embedded nats-server reported", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// logWorth is log for what the server takes for trouble.
func (l *serverLogger) logWorth(level slog.Level, format string, args []any) {
	text := fmt.Sprintf(format, args...)
	level = worth(level, text)
	if found := l.client.FindStringSubmatch(text); found != nil && level >= slog.LevelWarn && l.spare(found[1], text) {
		return
	}
	l.log(level, "%s", []any{text})
}

// spare reports whether a line about a client is one too many.
func (l *serverLogger) spare(client, text string) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.second) >= time.Second {
		l.second = now
		clear(l.refused)
	}
	if cid, err := strconv.ParseUint(client, 10, 64); err == nil && strings.Contains(text, "Violation") {
		if l.refused[cid]++; l.refused[cid] == refusedPerSecond {
			select {
			case l.floods <- cid:
			default: // the next second counts again
			}
		}
	}
	if now.Sub(l.minute) >= time.Minute {
		if l.omitted > 0 {
			l.logger.Warn("log lines about clients of journal.listen omitted", "count", l.omitted)
		}
		l.minute, l.lines, l.omitted = now, 0, 0
	}
	if l.lines++; l.lines <= linesPerMinute {
		return false
	}
	l.omitted++
	return true
}

// tooMany logs what informd does against too many requests, as often as the server's lines
// about clients.
func (l *serverLogger) tooMany(action string) {
	if !l.spare("", action) {
		l.logger.Warn("too many requests from clients of journal.listen", "reason", action)
	}
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
