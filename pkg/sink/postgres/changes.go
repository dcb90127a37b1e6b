package postgres

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/event"
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
			all = append(all, statement{sql, []string{c.cluster, numberArray(positions)}})
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

// Both are about events by their positions. A redelivered event changes nothing that is newer.
const (
	endSQL = `DELETE FROM schema.objects o USING schema.history h
		WHERE h.cluster = $1 AND h.position = ANY ($2::bigint[]) AND h.op IN ('deleted', 'left')
			AND o.cluster = h.cluster AND o.api_group = h.api_group AND o.resource = h.resource
			AND o.namespace = h.namespace AND o.name = h.name AND o.uid = h.uid
			AND (NOT h.redelivered OR (o.epoch, o.revision, o.ordinal) <= (h.epoch, h.revision, h.ordinal))`

	stateSQL = `INSERT INTO schema.objects AS o (cluster, api_group, resource, namespace, name, uid, version, kind, revision, epoch, ordinal,
			labels, owner_kind, owner_uid, created, changed, position, object, raw)
		SELECT h.cluster, h.api_group, h.resource, h.namespace, h.name, h.uid, h.version, h.kind, h.revision, h.epoch, h.ordinal,
			m -> 'labels', owner ->> 'kind', owner ->> 'uid',
			CASE WHEN m ->> 'creationTimestamp' ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$' THEN (m ->> 'creationTimestamp')::timestamptz END,
			h.time, CASE WHEN h.redelivered THEN 0 ELSE h.position END, h.object, h.raw
		FROM schema.history h
		CROSS JOIN LATERAL (SELECT h.object -> 'metadata' AS m OFFSET 0) metadata
		LEFT JOIN LATERAL (
			SELECT owner FROM jsonb_array_elements(CASE WHEN jsonb_typeof(m -> 'ownerReferences') = 'array' THEN m -> 'ownerReferences' END) owner
			ORDER BY (owner ->> 'controller' = 'true') DESC NULLS LAST LIMIT 1
		) owners ON true
		WHERE h.cluster = $1 AND h.position = ANY ($2::bigint[]) AND h.op NOT IN ('deleted', 'left')
			AND (NOT h.redelivered OR NOT EXISTS (
				SELECT FROM schema.history d
				WHERE d.cluster = h.cluster AND d.id >= h.uid || ':' AND d.id < h.uid || ';' AND d.op IN ('deleted', 'left')
					AND (d.epoch, d.revision, d.ordinal) > (h.epoch, h.revision, h.ordinal)))
		ON CONFLICT (cluster, api_group, resource, namespace, name) DO UPDATE SET uid = excluded.uid, version = excluded.version,
			kind = excluded.kind, revision = excluded.revision, epoch = excluded.epoch, ordinal = excluded.ordinal, labels = excluded.labels,
			owner_kind = excluded.owner_kind, owner_uid = excluded.owner_uid, created = excluded.created, changed = excluded.changed,
			position = greatest(o.position, excluded.position), object = excluded.object, raw = excluded.raw
		WHERE excluded.position > 0 OR (o.epoch, o.revision, o.ordinal) <= (excluded.epoch, excluded.revision, excluded.ordinal)`
)

// The control events, by position.
const (
	beginSQL = `INSERT INTO schema.snapshots (cluster, target, run, position)
		SELECT cluster, target, run, position FROM schema.history WHERE cluster = $1 AND position = $2::bigint
		ON CONFLICT DO NOTHING`

	// Every object that exists has had an event since the beginning of its snapshot.
	syncedSQL = `DELETE FROM schema.objects o USING schema.history h, schema.snapshots s
		WHERE h.cluster = $1 AND h.position = $2::bigint AND s.cluster = h.cluster AND s.target = h.target AND s.run = h.run
			AND o.cluster = h.cluster AND o.api_group = h.api_group AND o.resource = h.resource AND o.position < s.position`

	closeSQL = `DELETE FROM schema.snapshots s USING schema.history h
		WHERE h.cluster = $1 AND h.position = $2::bigint AND s.cluster = h.cluster AND s.target = h.target AND s.run <= h.run`

	gapSQL = `INSERT INTO schema.gaps (cluster, id, target, time, from_revision, to_revision, reason, recovered, trimmed)
		SELECT cluster, id, target, time, $3::numeric, $4::numeric, $5, $6, $7::numeric FROM schema.history
		WHERE cluster = $1 AND position = $2::bigint
		ON CONFLICT DO NOTHING`
)
