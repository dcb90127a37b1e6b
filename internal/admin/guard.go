package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// door is a way into the server: the unix socket, or the TCP listener. It refuses
// requests that an operator or a scraper did not send to informd directly.
type door struct {
	// socket: the mode of the socket decides who connects.
	socket bool
	// encrypted: the certificate has bound the name of the host.
	encrypted bool
	// local: the listener is on a loopback address.
	local bool
	// hosts are the names that the Host header may have, beside those of [ownName].
	hosts []string
	// tokenFile has the token of operators; empty lets none in over TCP.
	tokenFile string
}

// refusal is why a request is not served.
type refusal struct {
	code   int
	reason string // a label of the counter
	text   string
}

func forbid(reason, format string, args ...any) *refusal {
	return &refusal{http.StatusForbidden, reason, fmt.Sprintf(format, args...)}
}

// reading checks a request for /status or /metrics.
func (d *door) reading(r *http.Request) *refusal {
	if refused := d.foreign(r); refused != nil {
		return refused
	}
	if by := forwardedBy(r); by != "" && d.local && !d.socket {
		return forbid("forwarded", "not through a proxy (%s): admin.listen is an address of this machine alone", by)
	}
	return nil
}

// operating checks a request that changes something or shows objects.
func (d *door) operating(r *http.Request) *refusal {
	if refused := d.foreign(r); refused != nil {
		return refused
	}
	if r.Header.Get("Origin") != "" {
		return forbid("cross_site", "not from a web page")
	}
	if by := forwardedBy(r); by != "" {
		return forbid("forwarded", "not through a proxy (%s): ask informd directly", by)
	}
	switch {
	case d.socket:
		return nil
	case d.tokenFile == "":
		return forbid("no_token", "not over TCP: run the informd command with informd's config as informd's user where informd runs (kubectl exec), "+
			"so that it uses admin.socket; or set admin.tokenFile")
	}
	return d.checkToken(r)
}

// copying checks a request for the log. A listener for this machine alone needs no token for it.
func (d *door) copying(r *http.Request) *refusal {
	if d.local && !d.socket && d.tokenFile == "" {
		return d.reading(r)
	}
	return d.operating(r)
}

// checkToken reads the file for each request: it may rotate.
func (d *door) checkToken(r *http.Request) *refusal {
	want, err := ReadToken(d.tokenFile)
	if err != nil {
		return &refusal{http.StatusInternalServerError, "no_token", err.Error()}
	}
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(shown))
	if !ok || subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return &refusal{http.StatusUnauthorized, "token", "the token is not the one in admin.tokenFile"}
	}
	return nil
}

// foreign refuses what a web page makes a browser send: a request of another site, or
// one to a name of the page's own that leads to this address (DNS rebinding).
func (d *door) foreign(r *http.Request) *refusal {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
	default:
		return forbid("cross_site", "not from a web page of another site")
	}
	if !d.encrypted && !ownName(r.Host, d.hosts) {
		return forbid("host", "the Host header names another machine: use an IP address, or add the name to admin.hosts")
	}
	return nil
}

// ownName reports whether a Host header can be informd's: an IP address, or a name that
// no public name server resolves.
func ownName(host string, more []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if net.ParseIP(strings.Trim(host, "[]")) != nil || !strings.Contains(host, ".") {
		return true
	}
	suffixes := []string{".svc", ".cluster.local", ".localhost", ".local", ".internal"}
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(host, suffix) }) ||
		slices.ContainsFunc(more, func(one string) bool { return strings.EqualFold(one, host) })
}

// forwardedBy names what shows that a proxy sent the request, "" if nothing does.
func forwardedBy(r *http.Request) string {
	for name := range r.Header {
		switch {
		case strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "X-Envoy-"), name == "Forwarded", name == "Via", name == "X-Real-Ip":
			return name
		}
	}
	// The sidecar of a service mesh connects from 127.0.0.6.
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	if ip == nil || !ip.IsLoopback() || ip.Equal(net.IPv6loopback) || ip.Equal(net.IPv4(127, 0, 0, 1)) {
		return ""
	}
	if own, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && own.IP.Equal(ip) {
		return ""
	}
	return "from " + ip.String()
}

const (
	bearer   = "Bearer "
	minToken = 16
	maxToken = 4096
)

// ReadToken reads the token of operators, without the white space around it.
func ReadToken(path string) (token string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read admin.tokenFile: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("read admin.tokenFile %s: %w", path, err)
	}
	token = strings.TrimSpace(string(text))
	if len(token) < minToken || len(text) > maxToken {
		return "", fmt.Errorf("admin.tokenFile %s: a token has %d to %d characters (head -c 32 /dev/urandom | base64)", path, minToken, maxToken)
	}
	return token, nil
}

// Authorization is the header with which a command shows the token.
func Authorization(token string) (name, value string) { return "Authorization", bearer + token }
