-- Version 1. "schema" is replaced by the name of the schema.

CREATE TABLE schema.informd_schema (
	program text PRIMARY KEY, -- 'informd': the tables below are its own
	version integer NOT NULL
);
INSERT INTO schema.informd_schema VALUES ('informd', 1);

-- One row for each cluster: how far its informd has come.
CREATE TABLE schema.cursors (
	cluster  text PRIMARY KEY,
	sink     text NOT NULL,
	identity text NOT NULL,             -- of these tables; changes when they turn out to lack events
	log      text NOT NULL,             -- the log of informd that sequence is of
	sequence numeric(20) NOT NULL,      -- of the last event in history
	position bigint NOT NULL,           -- of the last event in history
	changed  timestamptz NOT NULL DEFAULT now()
);

-- The beginnings of snapshots that have not ended.
CREATE TABLE schema.snapshots (
	cluster  text NOT NULL,
	target   text NOT NULL,
	run      numeric(20) NOT NULL,
	position bigint NOT NULL,
	PRIMARY KEY (cluster, target, run)
);

-- One row for each event, in the order of position.
CREATE TABLE schema.history (
	cluster     text NOT NULL,
	position    bigint NOT NULL,
	id          text COLLATE "C" NOT NULL,
	op          text NOT NULL,
	time        timestamptz NOT NULL,
	target      text NOT NULL,
	api_group   text NOT NULL,
	version     text NOT NULL,
	resource    text NOT NULL,
	kind        text NOT NULL,
	namespace   text NOT NULL,
	name        text NOT NULL,
	uid         text NOT NULL,
	revision    numeric(20) NOT NULL,
	previous    numeric(20) NOT NULL,
	ordinal     numeric(20) NOT NULL,
	epoch       numeric(20) NOT NULL,
	run         numeric(20) NOT NULL,
	replay      boolean NOT NULL,
	redelivered boolean NOT NULL,
	final       boolean,                -- of deletions: object is surely the last state
	object      jsonb,
	more        jsonb,                  -- what data has beside the object: patch, changed, ownerChain, ...
	raw         text,                   -- the event as CloudEvents JSON, if jsonb or text cannot hold it
	PRIMARY KEY (cluster, position)
);
CREATE INDEX history_id ON schema.history (id);
CREATE INDEX history_object ON schema.history (name, namespace, resource, position);
CREATE INDEX history_time ON schema.history USING brin (time) WITH (pages_per_range = 32);

-- One row for each object that exists.
CREATE TABLE schema.objects (
	cluster    text NOT NULL,
	api_group  text NOT NULL,
	resource   text NOT NULL,
	namespace  text NOT NULL,
	name       text NOT NULL,
	uid        text NOT NULL,
	version    text NOT NULL,
	kind       text NOT NULL,
	revision   numeric(20) NOT NULL,
	epoch      numeric(20) NOT NULL,
	ordinal    numeric(20) NOT NULL,
	labels     jsonb,
	owner_kind text,
	owner_uid  text,
	created    timestamptz,
	changed    timestamptz NOT NULL,
	position   bigint NOT NULL,         -- of its last event in history that was not redelivered
	object     jsonb,
	raw        text,                    -- the event, see history
	PRIMARY KEY (cluster, api_group, resource, namespace, name)
);
CREATE INDEX objects_labels ON schema.objects USING gin (labels jsonb_path_ops);
CREATE INDEX objects_owner ON schema.objects (owner_uid) WHERE owner_uid IS NOT NULL;
CREATE INDEX objects_changed ON schema.objects (changed);
CREATE INDEX objects_node ON schema.objects ((object #>> '{spec,nodeName}')) WHERE resource = 'pods' AND api_group = '';

-- Ranges of revisions in which events may be missing.
CREATE TABLE schema.gaps (
	cluster       text NOT NULL,
	id            text COLLATE "C" NOT NULL,
	target        text NOT NULL,
	time          timestamptz NOT NULL,
	from_revision numeric(20) NOT NULL,
	to_revision   numeric(20) NOT NULL,
	reason        text NOT NULL,
	recovered     text NOT NULL,
	trimmed       numeric(20) NOT NULL,
	PRIMARY KEY (cluster, id)
);

-- lz4 compresses objects several times as fast as the default. Not every server has it, and PostgreSQL 13 does not know
-- the words: so they are in a text.
DO $$
BEGIN
	EXECUTE 'ALTER TABLE schema.history ALTER COLUMN object SET COMPRESSION lz4, ALTER COLUMN more SET COMPRESSION lz4';
	EXECUTE 'ALTER TABLE schema.objects ALTER COLUMN object SET COMPRESSION lz4';
EXCEPTION WHEN syntax_error OR feature_not_supported OR invalid_parameter_value THEN
	NULL;
END
$$;

-- The containers of existing pods and their images.
CREATE VIEW schema.images AS
	SELECT o.cluster, o.namespace, o.name AS pod, c ->> 'name' AS container, c ->> 'image' AS image
	FROM schema.objects o
	CROSS JOIN LATERAL jsonb_path_query(o.object, '$.spec.*[*] ? (exists (@.image))') c
	WHERE o.resource = 'pods' AND o.api_group = '';

-- The existing pods with their nodes.
CREATE VIEW schema.pods_by_node AS
	SELECT cluster, object #>> '{spec,nodeName}' AS node, namespace, name, object #>> '{status,phase}' AS phase, uid, labels
	FROM schema.objects
	WHERE resource = 'pods' AND api_group = '';

-- The objects as they were at a time, as far as history reaches back.
CREATE FUNCTION schema.objects_at(at timestamptz) RETURNS SETOF schema.history LANGUAGE sql STABLE AS $$
	SELECT * FROM (
		SELECT DISTINCT ON (cluster, api_group, resource, namespace, name) *
		FROM schema.history
		WHERE time <= at AND uid <> '' AND NOT redelivered
		ORDER BY cluster, api_group, resource, namespace, name, position DESC
	) last WHERE op NOT IN ('deleted', 'left')
$$;

-- What changed within a time before and after another. What came again after a rewind is there once.
CREATE FUNCTION schema.changes_around(at timestamptz, within interval) RETURNS SETOF schema.history LANGUAGE sql STABLE AS $$
	SELECT * FROM (
		SELECT DISTINCT ON (cluster, uid, epoch, revision, op) *
		FROM schema.history
		WHERE time BETWEEN at - within AND at + within AND op IN ('added', 'modified', 'deleted')
		ORDER BY cluster, uid, epoch, revision, op, position
	) once ORDER BY time, position
$$;
