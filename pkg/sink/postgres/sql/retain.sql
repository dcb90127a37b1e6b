-- Deletes, of some rows between two positions, the older ones: by age if the object has a newer row of that age or does
-- not exist, and by the number of newer rows of the object. No redelivered row counts as newer than one that is not: it
-- does not say what existed. Returns the last position, NULL behind the end.
WITH rows AS (
	SELECT * FROM schema.history WHERE cluster = $1 AND position BETWEEN $2::bigint AND $6::bigint ORDER BY position LIMIT $3::bigint
), old AS (
	DELETE FROM schema.history h USING rows r
	WHERE h.cluster = r.cluster AND h.position = r.position AND (
		r.time < $4::timestamptz AND (
			r.uid = '' OR r.op IN ('deleted', 'left') OR EXISTS (
				SELECT FROM schema.history n WHERE n.cluster = r.cluster AND n.name = r.name AND n.namespace = r.namespace
					AND n.resource = r.resource AND n.api_group = r.api_group AND n.position > r.position
					AND n.redelivered <= r.redelivered AND n.time < $4::timestamptz))
		OR $5::bigint > 0 AND r.uid <> '' AND $5::bigint <= (
			SELECT count(*) FROM (
				SELECT FROM schema.history n WHERE n.cluster = r.cluster AND n.name = r.name AND n.namespace = r.namespace
					AND n.resource = r.resource AND n.api_group = r.api_group AND n.position > r.position
					AND n.redelivered <= r.redelivered
				LIMIT $5::bigint) newer))
)
SELECT max(position) FROM rows
