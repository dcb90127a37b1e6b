package postgres

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/event"
)

// Statements about events by their positions in history. "schema." is replaced.
var (
	//go:embed sql/end.sql
	endSQL string
	//go:embed sql/state.sql
	stateSQL string
	//go:embed sql/begin.sql
	beginSQL string
	//go:embed sql/synced.sql
	syncedSQL string
	//go:embed sql/close.sql
	closeSQL string
	//go:embed sql/gap.sql
	gapSQL string
)

// changes are what the events of a batch change in the tables beside history, by their positions there.
// All that is in one transaction, so only the outcome counts.
type changes struct {
	cluster string
	states  map[string]int64 // the last state of each object that no deletion follows
	uids    map[int64]string // of the states
	ends    []int64
	control []statement
	// again are redelivered events. Newer ones may have preceded them.
	again []int64
}

func (c *changes) add(e *event.Event, position int64) {
	at := strconv.FormatInt(position, 10)
	switch key := e.Key(); {
	case e.Op == event.Begin:
		c.control = append(c.control, statement{beginSQL, []string{c.cluster, at}})
	case e.Op == event.Synced:
		sql, args := syncedSQL, []string{c.cluster, at}
		if _, namespace, ok := strings.Cut(e.Target, "@"); ok {
			sql, args = syncedSQL+" AND o.namespace = $3", append(args, clean(namespace))
		}
		c.control = append(c.control, statement{sql, args}, statement{closeSQL, args[:2]})
	case e.Op == event.Gap && e.Gap != nil:
		number := func(n uint64) string { return strconv.FormatUint(n, 10) }
		c.control = append(c.control, statement{gapSQL, []string{
			c.cluster, at, number(e.Gap.From), number(e.Gap.To), clean(e.Gap.Reason), string(e.Gap.Recovered), number(e.Gap.Trimmed),
		}})
	case e.Op.Control():
	case e.Redelivered:
		c.again = append(c.again, position)
	case e.Op.Ends():
		c.ends = append(c.ends, position)
		if c.uids[c.states[key]] == e.UID {
			delete(c.states, key)
		}
	default:
		c.states[key], c.uids[position] = position, e.UID
	}
}

// statements write the changes.
func (c *changes) statements() []statement {
	var all []statement
	apply := func(sql string, positions ...int64) {
		if len(positions) > 0 {
			array := "{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(positions), " ", ","), "[]") + "}"
			first, last := positions[0], positions[len(positions)-1]
			all = append(all, statement{sql, []string{c.cluster, array, strconv.FormatInt(first, 10), strconv.FormatInt(last, 10)}})
		}
	}
	apply(endSQL, c.ends...)
	apply(stateSQL, slices.Sorted(maps.Values(c.states))...)
	for _, position := range c.again {
		apply(endSQL, position)
		apply(stateSQL, position)
	}
	return append(all, c.control...)
}
