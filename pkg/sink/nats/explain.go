package nats

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	client "github.com/nats-io/nats.go"
)

// explain adds what to do to errors of a connection that only the user can correct. explain(nil) is
// nil.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if refused(err) {
		return fmt.Errorf("the server refuses the credentials: %w; check auth, or the user in servers", err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the server's certificate is not trusted: %w; check tls.caFile and tls.serverName", err)
	}
	// crypto/tls has no exported type for alerts of the other side.
	if said, ok := errors.AsType[*net.OpError](err); ok && said.Op == "remote error" || errors.Is(err, client.ErrTLS) {
		return fmt.Errorf("TLS fails: %w; if the server requires a client certificate, set tls.certFile and tls.keyFile", err)
	}
	if errors.Is(err, client.ErrPermissionViolation) {
		return fmt.Errorf("the server denies a permission: %w; docs/sinks/nats.md lists the permissions", err)
	}
	if errors.Is(err, client.ErrSecureConnWanted) {
		return fmt.Errorf("the server has no TLS: %w; enable TLS on the server, or use nats:// and remove tls", err)
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
