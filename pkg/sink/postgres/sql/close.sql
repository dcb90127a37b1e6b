-- A snapshot has ended, and so have earlier ones of its target.
DELETE FROM schema.snapshots s USING schema.history h
WHERE h.cluster = $1 AND h.position = $2::bigint AND s.cluster = h.cluster AND s.target = h.target AND s.run <= h.run
