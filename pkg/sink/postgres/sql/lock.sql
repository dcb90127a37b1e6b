-- Begins the transaction in which the schema is made: one process at a time. "$schema" is the name of the schema. CREATE
-- SCHEMA IF NOT EXISTS would ask for a right that the role need not have.
BEGIN;
SET LOCAL lock_timeout = '30s';
SELECT pg_advisory_xact_lock(7598798437221093741); -- any number that no other program has
DO $$
BEGIN
	IF to_regnamespace('"$schema"') IS NULL THEN
		CREATE SCHEMA "$schema";
	END IF;
END
$$;
