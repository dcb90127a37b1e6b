package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/internal/display"
)

// permissionsMissing is below a table of targets if one of them lacks permissions.
const permissionsMissing = "\nPermissions are missing: apply what `informd rbac` prints for the config.\n"

// printTable is [align] below an empty line. It leaves out a table that has only a head.
func printTable(out io.Writer, rows [][]string) error {
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprintln(out)
	return align(out, rows)
}

// align writes rows as a table. An empty cell becomes "-"; the text of a cell stays in its line.
func align(out io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = cmp.Or(visible(cell), "-")
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// visible makes one line of a text from outside. White space becomes a blank. Characters that act
// on a terminal (control characters, bidirectional marks, bytes that are not UTF-8) are escaped as
// in Go.
func visible(s string) string {
	quoted := strconv.Quote(strings.Join(strings.Fields(s), " "))
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// shortened is [visible] with at most 120 characters, without the middle. It is for values of objects, which
// can be of any size. Errors are shown whole: their middle may be what to do.
func shortened(s string) string {
	const most = 120 // characters
	runes := []rune(visible(s))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most/2]) + "…" + string(runes[len(runes)-most/2+1:])
}

// since is the age of a time as [age], "" for the zero time.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return age(now.Sub(t))
}

// age is a duration as kubectl shows it. informd's clock may be ahead of ours.
func age(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// seconds returns a number of seconds as a duration, at most the longest one.
func seconds(s float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Second))
	return time.Duration(min(s, most)) * time.Second
}

// number is a number of things, in the singular for 1.
func number[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// count is a number in decimal digits.
func count(n uint64) string { return strconv.FormatUint(n, 10) }

// perSecond is a rate, with more digits the smaller it is.
func perSecond(x float64) string {
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

// size is a number of bytes in a suitable unit.
func size(n uint64) string {
	const step = 1024
	if n < step {
		return count(n) + "B"
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

// paint returns the text in a color (ECMA-48), or as it is if there are no colors.
func paint(colored bool, color, text string) string {
	if !colored || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// yAML returns a document as YAML, with escapes for the characters that a terminal obeys.
//
// sigs.k8s.io/yaml v1 fails on C1 controls, which encoding/json does not escape. It also
// writes controls of bidirectional text as they are. A C1 control before each of them makes
// it write the text in double quotes, where an escape has a meaning.
func yAML(document any) ([]byte, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	const bidi = `[\x{061c}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{2069}]`
	marked := regexp.MustCompile(bidi).ReplaceAll(text, []byte("\\u0080$0"))
	out, err := yaml.JSONToYAML(display.JSON(marked))
	if err != nil {
		return nil, err
	}
	return display.JSON(regexp.MustCompile(`\\x80(`+bidi+`)`).ReplaceAll(out, []byte("$1"))), nil
}
