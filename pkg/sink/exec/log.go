package exec

import (
	"bufio"
	"io"
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

// copy reads the lines of a standard error until there are no more.
func (l *lineLog) copy(from io.Reader) {
	lines := lineReader{Reader: bufio.NewReaderSize(from, maxLogged)}
	for {
		line, _, err := lines.next()
		l.print(line)
		if err != nil {
			return
		}
	}
}

// print logs the beginning of a line.
func (l *lineLog) print(line string) {
	switch {
	case line == "":
	case l.limiter.Allow():
		l.noteLost()
		l.logger.Info("output of the program", "line", strings.ToValidUTF8(line[:min(len(line), maxLogged)], "\ufffd"))
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
