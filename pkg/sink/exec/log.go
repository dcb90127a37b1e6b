package exec

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"

	"golang.org/x/time/rate"
)

const (
	// linesPerSecond is how many lines of programs go to the log, after the first ones.
	linesPerSecond = 10
	firstLines     = 100
	maxLogged      = 1 << 10 // bytes of a line
)

// lineLog writes lines of all processes of a sink to its log, whose handlers escape what a
// terminal would obey. Its methods may be called concurrently.
type lineLog struct {
	logger  *slog.Logger
	limiter *rate.Limiter
	lost    atomic.Int64 // lines left out since the last note about them
}

// print logs the beginning of a line.
func (l *lineLog) print(line string) {
	switch line = strings.TrimSpace(line); {
	case line == "":
	case l.limiter.Allow():
		l.noteLost()
		l.logger.Warn("output of the program", "line", strings.ToValidUTF8(line[:min(len(line), maxLogged)], "\ufffd"))
	default:
		l.lost.Add(1)
	}
}

// noteLost logs how many lines were left out.
func (l *lineLog) noteLost() {
	if n := l.lost.Swap(0); n > 0 {
		l.logger.Warn("the program prints too much; the log lacks lines", "lines", n)
	}
}

// output writes what one process prints to the log.
type output struct {
	log  *lineLog
	line []byte // the beginning of a line without its end
}

// Write implements [io.Writer]. Of a long line it keeps only the beginning.
func (o *output) Write(text []byte) (int, error) {
	for rest := text; len(rest) > 0; {
		line, after, ends := bytes.Cut(rest, []byte{'\n'})
		o.line = append(o.line, line[:min(len(line), maxLogged-len(o.line))]...)
		if rest = after; ends {
			o.log.print(string(o.line))
			o.line = o.line[:0]
		}
	}
	return len(text), nil
}
