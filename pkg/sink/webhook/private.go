package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
)

// privateError says that an endpoint is where it may not be.
type privateError struct {
	address netip.Addr
	kind    string
}

func (e *privateError) Error() string {
	return fmt.Sprintf("%s is %s, which blockPrivateAddresses refuses", e.address, e.kind)
}

// refusePrivate is a dialer's Control: names have been looked up by then, and this is
// the address that the connection would go to.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read address %q: %w", address, err)
	}
	if kind := privateKind(to.Addr()); kind != "" {
		return &privateError{to.Addr(), kind}
	}
	return nil
}

// refuseProxy makes an error of a proxy: it would look up the endpoint's name, and
// nobody would see the address.
func refuseProxy(find func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		proxy, err := find(r)
		if err != nil || proxy == nil {
			return nil, err
		}
		return nil, errors.New("the environment has a proxy for it, with which blockPrivateAddresses has no effect: " +
			"list the endpoint's host in NO_PROXY, or set blockPrivateAddresses: false and let the proxy decide")
	}
}

// privateKind says what an address is that is not one of the public Internet, "" if
// it is one.
func privateKind(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	switch {
	case a.IsUnspecified():
		return "the unspecified address"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsMulticast():
		return "a multicast address"
	}
	for _, r := range reservedAddresses() {
		if !r.prefix.Contains(a) {
			continue
		}
		if r.embeds < 0 {
			return r.kind
		}
		raw := a.As16()
		if kind := privateKind(netip.AddrFrom4([4]byte(raw[r.embeds : r.embeds+4]))); kind != "" {
			return r.kind + " of " + kind
		}
	}
	return ""
}

// addresses are a range that is not of the public Internet.
type addresses struct {
	prefix netip.Prefix
	kind   string
	// embeds is where in the address an IPv4 address stands, which decides; negative if
	// there is none.
	embeds int
}

// reservedAddresses are those of the IANA registries of special-purpose addresses, and
// metadata services of clouds that are elsewhere.
func reservedAddresses() []addresses {
	of := func(kind string, prefixes ...string) []addresses {
		all := make([]addresses, len(prefixes))
		for i, prefix := range prefixes {
			all[i] = addresses{netip.MustParsePrefix(prefix), kind, -1}
		}
		return all
	}
	var all []addresses
	all = append(all, of("a cloud's metadata address", "169.254.169.254/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128")...)
	all = append(all, of("a private address", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")...)
	all = append(all, of("a link-local address", "169.254.0.0/16", "fe80::/10")...)
	all = append(all, of("a unique-local address", "fc00::/7", "fec0::/10")...)
	all = append(all, of("a shared address of a carrier", "100.64.0.0/10")...)
	all = append(all, of("a reserved address", "0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "5f00::/16")...)
	return append(all,
		addresses{netip.MustParsePrefix("64:ff9b::/96"), "the translation (NAT64)", 12},
		addresses{netip.MustParsePrefix("2002::/16"), "the tunnel (6to4)", 2})
}
