package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
)

// schemaVersion is that of sql/schema.sql. A later version adds statements that lead from one to the next.
const schemaVersion = 1

// schemaLock is the advisory lock under which the schema is made: any number that no other program has.
const schemaLock = "7598798437221093741"

var (
	//go:embed sql/schema.sql
	schemaSQL string
	//go:embed sql/version.sql
	versionSQL string
)

// prepare makes the tables, or finds that they are informd's. Several processes may call it at a time. After an error
// the connection must be given up.
func (t *tables) prepare(ctx context.Context) error {
	version, err := t.version(ctx)
	if err != nil || version == schemaVersion {
		return err
	}
	results, err := t.exec(ctx,
		statement{sql: "BEGIN"},
		statement{sql: "SET LOCAL lock_timeout = '30s'"},
		statement{sql: "SELECT pg_advisory_xact_lock($1::bigint)", args: []string{schemaLock}},
		statement{sql: "SELECT 1 FROM pg_namespace WHERE nspname = $1", args: []string{t.options.Schema}})
	if err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	if err := t.create(ctx, len(results[3].Rows) > 0); err != nil {
		return fmt.Errorf("create the tables in the schema %s: %w", t.options.Schema, err)
	}
	return nil
}

// create makes the tables in a transaction that has the lock, and ends it.
func (t *tables) create(ctx context.Context, exists bool) error {
	if !exists {
		if _, err := t.exec(ctx, statement{sql: `CREATE SCHEMA "` + t.options.Schema + `"`}); err != nil {
			return err
		}
	}
	version, err := t.version(ctx) // another process may have been faster
	if err != nil {
		return err
	}
	if version == 0 {
		script := schemaSQL + fmt.Sprintf("INSERT INTO schema.informd_schema VALUES ('informd', %d);", schemaVersion)
		if _, err := t.conn.Exec(ctx, t.options.sql(script)).ReadAll(); err != nil {
			return orContext(ctx, err)
		}
		t.env.Logger.Info("created the tables", "schema", t.options.Schema, "version", schemaVersion)
	}
	_, err = t.exec(ctx, statement{sql: "COMMIT"})
	return err
}

// version returns the version of the tables, 0 if there are none. It refuses a schema in which another
// program has a table or view with the name of one of informd's.
func (t *tables) version(ctx context.Context) (int, error) {
	results, err := t.exec(ctx, statement{
		sql:  versionSQL,
		args: []string{t.options.Schema},
	})
	if err != nil {
		return 0, fmt.Errorf("look for the tables: %w", err)
	}
	rows := results[0].Rows
	if len(rows) == 0 {
		return 0, nil
	}
	if string(rows[0][1]) != "t" {
		return 0, fmt.Errorf("schema %s has a table %s that is not informd's: set schema to another name", t.options.Schema, rows[0][0])
	}
	results, err = t.exec(ctx, statement{sql: "SELECT version FROM schema.informd_schema WHERE program = 'informd'"})
	if err != nil {
		return 0, fmt.Errorf("read the version of the tables: %w", err)
	}
	if len(results[0].Rows) == 0 {
		return 0, fmt.Errorf("schema %s has a table informd_schema that is not informd's: set schema to another name", t.options.Schema)
	}
	version, err := strconv.Atoi(string(results[0].Rows[0][0]))
	if err == nil && version > schemaVersion {
		err = fmt.Errorf("the tables in the schema %s have version %d, made by a later informd than this one, which knows %d: upgrade informd, or set schema to another name",
			t.options.Schema, version, schemaVersion)
	}
	return version, err
}
