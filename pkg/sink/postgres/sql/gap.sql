-- A gap gets its row.
INSERT INTO schema.gaps (cluster, id, target, time, from_revision, to_revision, reason, recovered, trimmed)
SELECT cluster, id, target, time, $3::numeric, $4::numeric, $5, $6, $7::numeric FROM schema.history
WHERE cluster = $1 AND position = $2::bigint
ON CONFLICT DO NOTHING
