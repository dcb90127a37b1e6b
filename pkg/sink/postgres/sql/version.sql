-- The tables and views of the schema that have the name of one of informd's, its own table with the version first.
SELECT c.relname, c.relname = 'informd_schema' AND EXISTS (
	SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'program')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname IN ('informd_schema', 'cursors', 'snapshots', 'history', 'objects', 'gaps', 'images', 'pods_by_node')
ORDER BY 2 DESC, 1
