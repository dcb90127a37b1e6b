package natsconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	client "github.com/nats-io/nats.go"
)

// Explain adds what to do to errors of a connection that only the user can correct.
// Section is what the keys of [Config] are below in the user's config: "journal.", or "".
// Explain(nil, section) is nil.
func Explain(err error, section string) error {
	if err == nil {
		return nil
	}
	if refused(err) {
		return fmt.Errorf("the server refuses the credentials: %w; check %[2]scredsFile, %[2]snkeyFile, %[2]stokenFile or the user in %[2]surl", err, section)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the server's certificate is not trusted: %w; check %[2]stls.caFile and %[2]stls.serverName", err, section)
	}
	// crypto/tls has no exported type for what the other side says.
	if said, ok := errors.AsType[*net.OpError](err); ok && said.Op == "remote error" || errors.Is(err, client.ErrTLS) {
		return fmt.Errorf("TLS fails: %w; does the server demand a client certificate (%[2]stls.certFile and %[2]stls.keyFile)?", err, section)
	}
	if errors.Is(err, client.ErrPermissionViolation) {
		return fmt.Errorf("the server denies a permission: %w; docs/nats.md lists what the user needs", err)
	}
	if errors.Is(err, client.ErrSecureConnWanted) {
		return fmt.Errorf("the server has no TLS: %w; use nats:// and remove %[2]stls, or turn TLS on there", err, section)
	}
	return err
}

// refused knows the server's words for wrong credentials. The library has errors for
// them, but not in every place.
func refused(err error) bool {
	text := strings.ToLower(err.Error())
	for _, words := range []string{"authorization violation", "authentication expired", "authentication revoked", "authentication timeout"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
