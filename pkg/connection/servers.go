// Package connection holds the keys of a config that say where a server is and how
// informd logs in there: servers, auth and tls. All sinks have the same keys, in the same shape.
//
// The package decodes nothing and connects to nothing: it checks the keys that all types
// have in common, and reads the files that the keys name. Each type defines the form of its
// addresses and the keys of auth that its servers understand. Packages nats, kafka, postgres and
// webhook call it, and the config decodes into its types.
package connection

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/sink"
)

// serversKey is the key of [Servers] in a config.
const serversKey = "servers"

// Servers are the addresses of the servers of one cluster. A config has a list of them, or
// one address as text. An address may hold a password, hence the type of its elements.
type Servers []sink.Secret

// NewServers makes Servers of addresses as they are.
func NewServers(addresses ...string) Servers {
	all := make(Servers, len(addresses))
	for i, address := range addresses {
		all[i] = sink.NewSecret(address)
	}
	return all
}

// Reveal returns the addresses themselves.
func (s Servers) Reveal() []string {
	all := make([]string, len(s))
	for i, one := range s {
		all[i] = strings.TrimSpace(one.Reveal())
	}
	return all
}

// Identity returns the addresses without logins, in the order of their names: two configs that lead to the same
// servers have one text.
func (s Servers) Identity() string {
	all := s.Reveal()
	for i, one := range all {
		scheme, rest, found := strings.Cut(one, "://")
		if !found {
			scheme, rest = "", one
		}
		all[i] = scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// Key returns the path of the key of one address, which may stand without a list.
func (s Servers) Key(i int) string {
	if len(s) == 1 {
		return serversKey
	}
	return fmt.Sprintf("%s[%d]", serversKey, i)
}

// Validate returns the problems of the addresses, by key. Example is a list of addresses of
// the type, without brackets. Wrong says what is wrong with an address, "" if nothing is; it
// must not repeat the address, which may hold a password.
func (s Servers) Validate(example string, wrong func(address string) string) []sink.Problem {
	if len(s) == 0 {
		return []sink.Problem{{Key: serversKey, Message: "is required: the addresses of the servers, as in [" + example + "]"}}
	}
	var problems sink.Problems
	for i, address := range s.Reveal() {
		switch message := wrong(address); {
		case address == "":
			problems.Add(s.Key(i), "is empty: write the address of a server, as in [%s]", example)
		case strings.Contains(address, ","):
			problems.Add(s.Key(i), "has a comma: several servers are a list, as in [%s]", example)
		case message != "":
			problems.Add(s.Key(i), "%s", message)
		}
	}
	return problems
}

// HostPort returns the host and port of an address host:port, where the port may be missing. Its error
// does not show the address.
func HostPort(address, defaultPort string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		host, text, err = net.SplitHostPort(net.JoinHostPort(strings.Trim(address, "[]"), defaultPort))
	}
	number, wrong := strconv.ParseUint(text, 10, 16)
	if err != nil || wrong != nil || number == 0 || host == "" || strings.ContainsAny(host, "/@,[] \t\n") ||
		strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", 0, errors.New("not host:port")
	}
	return host, uint16(number), nil
}

// Exposed returns the key and the host of the first address host:port that is one of another machine, for
// [sink.Exposer]. Both are empty if there is none, with TLS, or if the user allows a connection without.
func (s Servers) Exposed(t TLS, allowed bool) (key, host string) {
	if t.Wanted() || allowed {
		return "", ""
	}
	for i, address := range s.Reveal() {
		if host, _, err := HostPort(address, "1"); err == nil && !Loopback(host) {
			return s.Key(i), host
		}
	}
	return "", ""
}

// Loopback reports whether a host is this machine by its name or address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
