-- The position of the cluster after a batch.
UPDATE schema.cursors SET identity = $2, log = $3, sequence = $4, position = $5, changed = now() WHERE cluster = $1
