-- The objects of events get their rows. A redelivered event replaces nothing that is newer. The range of positions says
-- nothing new, but without it a server that has no statistics yet reads all rows of the cluster.
INSERT INTO schema.objects AS o (cluster, api_group, resource, namespace, name, uid, version, kind, revision, epoch, ordinal,
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
WHERE h.cluster = $1 AND h.position BETWEEN $3::bigint AND $4::bigint AND h.position = ANY ($2::bigint[]) AND h.op NOT IN ('deleted', 'left')
	AND (NOT h.redelivered OR NOT EXISTS (
		SELECT FROM schema.history d
		WHERE d.cluster = h.cluster AND d.id >= h.uid || ':' AND d.id < h.uid || ';' AND d.op IN ('deleted', 'left')
			AND (d.epoch, d.revision, d.ordinal) > (h.epoch, h.revision, h.ordinal)))
ON CONFLICT (cluster, api_group, resource, namespace, name) DO UPDATE SET uid = excluded.uid, version = excluded.version,
	kind = excluded.kind, revision = excluded.revision, epoch = excluded.epoch, ordinal = excluded.ordinal, labels = excluded.labels,
	owner_kind = excluded.owner_kind, owner_uid = excluded.owner_uid, created = excluded.created, changed = excluded.changed,
	position = greatest(o.position, excluded.position), object = excluded.object, raw = excluded.raw
WHERE excluded.position > 0 OR (o.epoch, o.revision, o.ordinal) <= (excluded.epoch, excluded.revision, excluded.ordinal)
