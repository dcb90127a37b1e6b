package endpoint

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// WrongURL says what is wrong with an address that begins with http:// or https://, "" if
// nothing is. It never shows the address, which may hold a secret. example is an address of
// the sink type.
func WrongURL(address, example string, allowHTTP bool) string {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return "is required: the address of the endpoint, as in " + example
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return "is not an address like " + example
	case u.Fragment != "":
		return "has a fragment (#...), which is never sent; remove it"
	case u.Scheme == "http" && !connection.Loopback(u.Hostname()) && !allowHTTP:
		return "would send events without TLS over the network; use https://, or set allowHTTP: true"
	}
	return ""
}

// HasUser reports whether an address has a user name in it.
func HasUser(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.User != nil
}

// ValidateHeaders checks the headers that a config adds to each request. reserved reports
// whether the sink sets a header itself, by its canonical name, beside those of the protocol.
func ValidateHeaders(headers map[string]sink.Secret, auth connection.Auth, reserved func(name string) bool) []sink.Problem {
	var problems []sink.Problem
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value, message := headers[name], ""
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case name == "" || strings.ContainsFunc(name, badInName):
			message = "is not a header name: letters, digits and !#$%&'*+-.^_`|~ only"
		case seen[canonical]:
			message = "is set twice in different spelling; keep one"
		case ofProtocol(canonical) || reserved(canonical):
			message = "is set by informd itself; remove it"
		case canonical == "Authorization" && auth.Wanted():
			message = "is set by auth, too; keep one"
		case strings.ContainsFunc(value.Reveal(), badInValue):
			message = "has a line break or another control character in its value; remove it"
		}
		seen[canonical] = true
		if message != "" {
			problems = append(problems, sink.Problem{Key: "headers." + name, Message: message})
		}
	}
	return problems
}

func badInName(r rune) bool {
	const others = "!#$%&'*+-.^_`|~"
	alphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !alphanumeric && !strings.ContainsRune(others, r)
}

func badInValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// ofProtocol reports whether the protocol sets a header, in its canonical form.
func ofProtocol(name string) bool {
	switch name {
	case "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// Hidden is the value of a header that is not shown.
const Hidden = "<redacted>"

// Shown are the headers of a request, by name, without the values of own headers and of the
// credential.
func Shown(headers http.Header, own map[string]sink.Secret) []sink.Header {
	secret := map[string]bool{"Authorization": true}
	for name := range own {
		secret[http.CanonicalHeaderKey(name)] = true
	}
	all := make([]sink.Header, 0, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		h := sink.Header{Name: name, Value: strings.Join(headers[name], ", ")}
		if secret[name] {
			h.Value = Hidden
		}
		all = append(all, h)
	}
	return all
}
