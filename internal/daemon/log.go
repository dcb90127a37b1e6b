package daemon

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
)

// maxStack is the limit of the stack of a panic, in bytes.
const maxStack = 16 << 10

// newLogger makes the logger of the whole program. It limits every attribute, and removes
// credentials from URLs: errors hold texts of API servers and endpoints.
func newLogger(w io.Writer, c config.Log, level *slog.LevelVar) *slog.Logger {
	setLevel(level, c)
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: limit}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(display.JSONWriter(w), options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// limit is [slog.HandlerOptions.ReplaceAttr].
func limit(_ []string, a slog.Attr) slog.Attr {
	text := ""
	switch a.Value.Kind() {
	case slog.KindString:
		text = a.Value.String()
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case error:
			text = v.Error()
		case fmt.Stringer:
			text = v.String()
		default: // a list, as of names
			if text = fmt.Sprint(v); display.Reason(text) == text {
				return a
			}
		}
	default:
		return a
	}
	if a.Key == "stack" {
		return slog.String(a.Key, display.Addresses(text[:min(len(text), maxStack)]))
	}
	return slog.String(a.Key, display.Reason(text))
}

func setLevel(level *slog.LevelVar, c config.Log) {
	var l slog.Level
	// The config allows no other values; on a mistake there info is as good.
	_ = l.UnmarshalText([]byte(c.Level))
	level.Set(l)
}
