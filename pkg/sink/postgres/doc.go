// Package postgres writes events into tables of PostgreSQL 13 and later: history has a row for each event, objects one
// for each object that exists.
//
// # One transaction
//
// A batch, its effects and informd's position are one transaction ([sink.Positioned]), so that history has each event
// once, whatever crashes. The row of the cluster in the table cursors is locked meanwhile: two processes write one
// after the other. Events that history has by their id are left out: after a power loss the watch brings them again, with
// sequences above all before.
//
// Tables that hold less than they have acknowledged were restored from a backup, or are those of a replica that lagged.
// They get another identity, by which informd repeats every object.
//
// # What it asks of the server
//
// Each transaction runs on one connection and leaves no state in the session: no prepared statement, no temporary table,
// no setting. So a pooler may give each transaction another connection.
//
// # What jsonb cannot hold
//
// An event with \u0000, with half a surrogate pair, or with a number beyond jsonb's is stored as text in the column raw;
// object and more are NULL. Of these, informd looks for \u0000 only. If the server refuses a batch for its content, its
// halves go by themselves, and a single event that is refused goes again as text. Only what is refused as text, too, is a
// permanent error.
package postgres
