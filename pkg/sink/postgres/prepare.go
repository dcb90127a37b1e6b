package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
)

// schemaVersion is that of sql/schema.sql. A later version adds statements that lead from one to the next.
const schemaVersion = 1

var (
	//go:embed sql/lock.sql
	lockSQL string
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
	if err := t.script(ctx, lockSQL); err != nil {
		return fmt.Errorf("make the schema %s: %w", t.options.Schema, err)
	}
	if version, err = t.version(ctx); err != nil { // another process may have been faster
		return err
	}
	if version == 0 {
		if err := t.script(ctx, schemaSQL); err != nil {
			return fmt.Errorf("make the tables in the schema %s: %w", t.options.Schema, err)
		}
		t.env.Logger.Info("created the tables", "schema", t.options.Schema, "version", schemaVersion)
	}
	return t.script(ctx, "COMMIT")
}

// version returns the version of the tables, 0 if there are none. It refuses a schema in which another
// program has a table or view with the name of one of informd's.
func (t *tables) version(ctx context.Context) (int, error) {
	results, err := t.exec(ctx, statement{versionSQL, []string{t.options.Schema}})
	if err != nil {
		return 0, fmt.Errorf("look for the tables: %w", err)
	}
	rows := results[0].Rows
	if len(rows) == 0 {
		return 0, nil
	}
	var versions [][][]byte
	if string(rows[0][1]) == "t" {
		results, err := t.exec(ctx, statement{sql: "SELECT version FROM schema.informd_schema WHERE program = 'informd'"})
		if err != nil {
			return 0, fmt.Errorf("read the version of the tables: %w", err)
		}
		versions = results[0].Rows
	}
	if len(versions) == 0 {
		return 0, fmt.Errorf("schema %s has a table %s that is not informd's: set schema to another name", t.options.Schema, rows[0][0])
	}
	version, err := strconv.Atoi(string(versions[0][0]))
	if err == nil && version > schemaVersion {
		err = fmt.Errorf("the tables in the schema %s have version %d, made by a later informd than this one, which knows %d: "+
			"upgrade informd, or set schema to another name", t.options.Schema, version, schemaVersion)
	}
	return version, err
}
