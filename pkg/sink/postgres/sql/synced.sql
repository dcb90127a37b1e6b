-- A snapshot has ended: every object that exists has had an event since its beginning.
DELETE FROM schema.objects o USING schema.history h, schema.snapshots s
WHERE h.cluster = $1 AND h.position = $2::bigint AND s.cluster = h.cluster AND s.target = h.target AND s.run = h.run
	AND o.cluster = h.cluster AND o.api_group = h.api_group AND o.resource = h.resource AND o.position < s.position
