package terminal

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// PermissionsMissing is below a table of targets if one of them lacks permissions.
const PermissionsMissing = "\nPermissions are missing: apply what `informd rbac` prints for the config.\n"

// PrintTable is [Align] below an empty line. It leaves out a table that has only a head.
func PrintTable(out io.Writer, rows [][]string) error {
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprintln(out)
	return Align(out, rows)
}

// Align writes rows as a table. An empty cell becomes "-"; the text of a cell stays in its line.
func Align(out io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = cmp.Or(Visible(cell), "-")
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// Visible makes one line of a text from outside. White space becomes a blank. Characters that act
// on a terminal (control characters, bidirectional marks, bytes that are not UTF-8) are escaped as
// in Go.
func Visible(s string) string {
	quoted := strconv.Quote(strings.Join(strings.Fields(s), " "))
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// Shortened is [Visible] with at most 120 characters. It leaves out the middle: an error begins with
// the action and ends with the cause.
func Shortened(s string) string {
	const most = 120 // characters
	runes := []rune(Visible(s))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most/2]) + "…" + string(runes[len(runes)-most/2+1:])
}

// Since is the age of a time as [Age], "" for the zero time.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Age(now.Sub(t))
}

// Age is a duration as kubectl shows it. informd's clock may be ahead of ours.
func Age(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// Seconds returns a number of seconds as a duration, at most the longest one.
func Seconds(s float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Second))
	return time.Duration(min(s, most)) * time.Second
}

// Number is a number of things, in the singular for 1.
func Number[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Count is a number in decimal digits.
func Count(n uint64) string { return strconv.FormatUint(n, 10) }

// PerSecond is a rate, with more digits the smaller it is.
func PerSecond(x float64) string {
	switch {
	case x < 0.005:
		return "0"
	case x < 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
}

// Size is a number of bytes in a suitable unit.
func Size(n uint64) string {
	const step = 1024
	if n < step {
		return Count(n) + "B"
	}
	x, units := float64(n)/step, []string{"KiB", "MiB", "GiB", "TiB"}
	for x >= step && len(units) > 1 {
		x, units = x/step, units[1:]
	}
	digits := 0
	if x < 10 {
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + units[0]
}

// Paint returns the text in a color (ECMA-48), or as it is if there are no colors.
func Paint(colored bool, color, text string) string {
	if !colored || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
