package natsconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	client "github.com/nats-io/nats.go"
)

// Explain adds what to do to errors of a connection that only the user can correct.
// Section is the path of [Config] in the user's config, with a dot: "journal.", or "".
// Explain(nil, section) is nil.
func Explain(err error, section string) error {
	if err == nil {
		return nil
	}
	if refused(err) {
		return fmt.Errorf("the server refuses the credentials: %w; check %[2]sauth, or the user in %[2]sservers", err, section)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the server's certificate is not trusted: %w; check %[2]stls.caFile and %[2]stls.serverName", err, section)
	}
	// crypto/tls has no exported type for alerts of the other side.
	if said, ok := errors.AsType[*net.OpError](err); ok && said.Op == "remote error" || errors.Is(err, client.ErrTLS) {
		return fmt.Errorf("TLS fails: %w; if the server requires a client certificate, set %[2]stls.certFile and %[2]stls.keyFile", err, section)
	}
	if errors.Is(err, client.ErrPermissionViolation) {
		return fmt.Errorf("the server denies a permission: %w; docs/sinks/nats.md and docs/ha.md list the permissions", err)
	}
	if errors.Is(err, client.ErrSecureConnWanted) {
		return fmt.Errorf("the server has no TLS: %w; enable TLS on the server, or use nats:// and remove %[2]stls", err, section)
	}
	return err
}

// refused reports whether the server's text says that the credentials are wrong. The library
// has errors for that, but not in every place.
func refused(err error) bool {
	text := strings.ToLower(err.Error())
	words := []string{"authorization violation", "authentication expired", "authentication revoked", "authentication timeout"}
	return slices.ContainsFunc(words, func(one string) bool { return strings.Contains(text, one) })
}
