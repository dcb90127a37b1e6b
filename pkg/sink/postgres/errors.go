package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// sqlState returns the code of an error of the server, "" if it is none.
func sqlState(err error) string {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return said.Code
	}
	return ""
}

// ofClass reports whether the server's answer to a statement has a code of one of these classes. That to a login says
// nothing of an event.
func ofClass(err error, classes ...string) bool {
	if _, login := errors.AsType[*pgconn.ConnectError](err); login {
		return false
	}
	code := sqlState(err)
	for _, class := range classes {
		if code != "" && strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// unstorable reports whether the server cannot hold what is in an event: bad data, a limit of the program.
func unstorable(err error) bool { return ofClass(err, "22", "54") }

// refused reports whether the reason may lie in an event of the batch: it is unstorable, or somebody has
// added a constraint or a trigger.
func refused(err error) bool {
	return unstorable(err) || ofClass(err, "23", "44", "P0", "2F", "38", "39")
}

// explain adds what to do to errors that only the user can correct. None of them is permanent: each ends
// when an operator acts. explain(nil) is nil.
func explain(err error) error {
	code := sqlState(err)
	_, uncertified := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	next := ""
	switch {
	case err == nil:
		return nil
	case code == "28P01" || code == "28000":
		next = "check auth, and pg_hba.conf of the server"
	case code == "3D000":
		next = "create the database, or correct database"
	case code == "42501":
		next = "grant the role of auth.username the rights that docs/sinks/postgres.md lists"
	case ofClass(err, "42", "3F"):
		next = "the tables are not those that informd made: set schema to another name, or restore them"
	case code == "25006":
		next = "the server takes no writes: name the primary in servers"
	case code == "53100":
		next = "the disk of the server is full"
	case code == "53300":
		next = "raise max_connections of the server, or use a pooler"
	case uncertified || unknown:
		next = "check tls.caFile and tls.serverName"
	case strings.Contains(fmt.Sprint(err), "server refused TLS connection"):
		next = "the server has no TLS: configure it there, or remove tls"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, next)
}
