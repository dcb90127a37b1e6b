// Package postgres runs a real PostgreSQL and PgBouncer for tests, as processes on loopback ports with their files in a
// temp dir. Tests kill, freeze and restart them; ports and files stay the same.
//
//	server := postgres.Start(t, postgres.Options{})
//	rows := server.Query(t, "SELECT name FROM informd.objects")
//
// The binaries are those of Debian's packages postgresql and pgbouncer, or of other versions from Maven Central (`make
// postgres` brings all). Neither runs as root: then they run as the user postgres or nobody.
package postgres
