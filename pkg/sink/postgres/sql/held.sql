-- Which ids history has. Each is looked up by itself: without statistics, the server would rather read all rows of the cluster.
SELECT h.id FROM jsonb_array_elements_text($2::jsonb) given
CROSS JOIN LATERAL (SELECT cluster, id FROM schema.history WHERE id = given OFFSET 0) h
WHERE h.cluster = $1
