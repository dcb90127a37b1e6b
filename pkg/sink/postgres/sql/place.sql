-- The row of the cluster, new or not, locked until the end of the transaction. "changed" is returned as its age in seconds.
INSERT INTO schema.cursors AS c (cluster, sink, identity, log, sequence, position) VALUES ($1, $2, $3, $4, 0, 0)
ON CONFLICT (cluster) DO UPDATE SET cluster = c.cluster
RETURNING sink, identity, log, sequence, position, extract(epoch FROM now() - changed)::bigint
