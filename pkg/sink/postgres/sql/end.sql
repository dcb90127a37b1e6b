-- The objects of deletions leave. A redelivered one removes nothing that is newer.
DELETE FROM schema.objects o USING schema.history h
WHERE h.cluster = $1 AND h.position BETWEEN $3::bigint AND $4::bigint AND h.position = ANY ($2::bigint[]) AND h.op IN ('deleted', 'left')
	AND o.cluster = h.cluster AND o.api_group = h.api_group AND o.resource = h.resource
	AND o.namespace = h.namespace AND o.name = h.name AND o.uid = h.uid
	AND (NOT h.redelivered OR (o.epoch, o.revision, o.ordinal) <= (h.epoch, h.revision, h.ordinal))
