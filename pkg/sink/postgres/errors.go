package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// contentError is the server's answer to the events of a batch, not to a login or about the position.
type contentError struct{ error }

// Unwrap returns the error that it is.
func (e contentError) Unwrap() error { return e.error }

// hasCode reports whether the server's answer has one of these codes, or one of these classes of codes.
func hasCode(err error, classes ...string) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	for _, class := range classes {
		if ok && strings.HasPrefix(said.Code, class) {
			return true
		}
	}
	return false
}

// refused reports whether the reason may lie in an event of the batch: the server cannot hold it, or somebody has
// added a constraint or a trigger.
func refused(err error) bool {
	_, content := errors.AsType[contentError](err)
	return content && (unstorable(err) || hasCode(err, "23", "44", "P0", "2F", "38", "39"))
}

// unstorable reports whether the server cannot hold what is in an event: bad data, a limit of the program.
func unstorable(err error) bool { return hasCode(err, "22", "54") }

// explain adds what to do to errors that only the user can correct. None of them is permanent: each ends
// when an operator acts. explain(nil) is nil.
func explain(err error) error {
	_, uncertified := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	next := ""
	switch {
	case err == nil:
		return nil
	case hasCode(err, "28"):
		next = "check auth, and pg_hba.conf of the server"
	case hasCode(err, "3D"):
		next = "create the database, or correct database"
	case hasCode(err, "42501"):
		next = "give the role of auth.username its schema and the rights, as docs/sinks/postgres.md shows"
	case hasCode(err, "42", "3F"):
		next = "the tables are not those that informd made: set schema to another name, or restore them"
	case hasCode(err, "25006"):
		next = "the server takes no writes: name the primary in servers"
	case hasCode(err, "53100"):
		next = "the disk of the server is full"
	case hasCode(err, "53300"):
		next = "raise max_connections of the server, or use a pooler"
	case uncertified || unknown:
		next = "check tls.caFile and tls.serverName"
	case strings.Contains(err.Error(), "server refused TLS connection"):
		next = "the server has no TLS: configure it there, or remove tls"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, next)
}
