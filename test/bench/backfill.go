package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/informd/informd/test/postgres"
)

// effort is what rows cost: seconds, and seconds of CPU time of the client and of all processes of PostgreSQL.
type effort struct{ Wall, Client, Server float64 }

// backfillRun is a first list that informd writes into empty tables, and COPY of the same rows by psql.
type backfillRun struct {
	Objects       int
	Informd, Copy effort
}

func (r backfillRun) rate() float64 { return float64(r.Objects) / r.Informd.Wall }

// perObject is a time for an object, in microseconds.
func (r backfillRun) perObject(seconds float64) float64 { return 1e6 * seconds / float64(r.Objects) }

// backfill fills a PostgreSQL that waits for the disk. No client has a CPU of its own.
func (b *bench) backfill(ctx context.Context) error {
	for range b.times(1) {
		r, err := b.backfillOnce(ctx)
		if err != nil {
			return err
		}
		b.backfills = append(b.backfills, r)
		b.say("%d objects into PostgreSQL: informd %+v, psql's COPY %+v", r.Objects, r.Informd, r.Copy)
	}
	return nil
}

func (b *bench) backfillOnce(ctx context.Context) (r backfillRun, err error) {
	server, err := b.startServer(ctx, source{objects: b.size(100_000)})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	// Autovacuum would come in one of the two.
	db, err := postgres.New(ctx, postgres.Options{Durable: true, Settings: map[string]string{"autovacuum": "off"}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	r.Objects = server.objects
	r.Informd, err = effortOf(ctx, db, func() (wall, client time.Duration, err error) {
		from := border{at: time.Now()}
		c, err := b.startClient(informd, setup{server: server, sink: sinkSpec{postgresSink, db.Address()}})
		if err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, c.end()) }()
		p, _, err := c.settle(ctx, from, int64(r.Objects), 0, r.Objects)
		return p.Wall, p.CPU, err
	})
	if err != nil {
		return r, err
	}
	return r, b.copySame(ctx, db, &r)
}

// copySame replaces the rows of the tables by the same ones.
func (b *bench) copySame(ctx context.Context, db *postgres.Server, r *backfillRun) error {
	dir, err := os.MkdirTemp(b.dir, "copy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // of a temp dir
	var out, in []string
	for _, table := range []string{"informd.history", "informd.objects"} {
		file := filepath.Join(dir, table)
		out = append(out, "-c", fmt.Sprintf(`\copy %s TO '%s'`, table, file))
		in = append(in, "-c", fmt.Sprintf(`\copy %s FROM '%s'`, table, file))
	}
	if _, _, err := psql(ctx, db, append(out, "-c", "TRUNCATE informd.history, informd.objects")...); err != nil {
		return err
	}
	if r.Copy, err = effortOf(ctx, db, func() (wall, client time.Duration, err error) {
		return psql(ctx, db, append(in, "--single-transaction")...)
	}); err != nil {
		return err
	}
	rows, err := db.TryQuery(ctx, fmt.Sprintf("SELECT h, o, h >= %d AND o = %[1]d FROM (SELECT count(*) h FROM informd.history) a, "+
		"(SELECT count(*) o FROM informd.objects) b", r.Objects))
	if err == nil && (len(rows) != 1 || rows[0][2] != "t") { // history has control events, too
		err = fmt.Errorf("history and objects have %v rows, want %d of the objects", rows, r.Objects)
	}
	return err
}

// effortOf measures what fills tables, after a checkpoint so that none falls into it.
func effortOf(ctx context.Context, db *postgres.Server, fill func() (wall, client time.Duration, err error)) (e effort, err error) {
	if _, err := db.TryQuery(ctx, "CHECKPOINT"); err != nil {
		return e, err
	}
	before, err := db.CPU()
	if err != nil {
		return e, err
	}
	wall, client, err := fill()
	if err != nil {
		return e, err
	}
	after, err := db.CPU()
	return effort{Wall: wall.Seconds(), Client: client.Seconds(), Server: (after - before).Seconds()}, err
}

func psql(ctx context.Context, db *postgres.Server, args ...string) (wall, client time.Duration, err error) {
	began := time.Now()
	cmd := db.Psql(ctx, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("psql: %w: %s", err, out)
	}
	return time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// ofBackfills returns a figure of each backfill.
func (b *bench) ofBackfills(figure func(backfillRun) float64) (values []float64) {
	for _, r := range b.backfills {
		values = append(values, figure(r))
	}
	return values
}

// judgeBackfill makes the rows of PostgreSQL.
func (b *bench) judgeBackfill() {
	wall := b.ofBackfills(func(r backfillRun) float64 { return r.Informd.Wall })
	b.rows = append(b.rows, row{
		Metric: "PostgreSQL, backfill of 100k Pods on all cores", Unit: " s", Required: 60, Aim: math.NaN(), Values: wall,
		Absolute: number(spreadOf(b.ofBackfills(backfillRun.rate)).Median) + " objects/s",
	})
	for _, of := range []struct {
		name   string
		figure func(effort) float64
	}{
		{"time, informd : psql's COPY of the same rows", func(e effort) float64 { return e.Wall }},
		{"CPU of the server, informd : psql's COPY", func(e effort) float64 { return e.Server }},
		{"CPU of the client, informd with the list : psql", func(e effort) float64 { return e.Client }},
	} {
		own := b.ofBackfills(func(r backfillRun) float64 { return r.perObject(of.figure(r.Informd)) })
		copied := b.ofBackfills(func(r backfillRun) float64 { return r.perObject(of.figure(r.Copy)) })
		b.rows = append(b.rows, row{
			Metric: "PostgreSQL, backfill: " + of.name, Unit: "x", Required: math.NaN(), Aim: math.NaN(), Values: ratios(own, copied),
			Absolute: fmt.Sprintf("%s : %s us per object", number(spreadOf(own).Median), number(spreadOf(copied).Median)),
		})
	}
}
