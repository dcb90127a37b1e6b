-- A snapshot begins.
INSERT INTO schema.snapshots (cluster, target, run, position)
SELECT cluster, target, run, position FROM schema.history WHERE cluster = $1 AND position = $2::bigint
ON CONFLICT DO NOTHING
