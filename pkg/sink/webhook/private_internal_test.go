package webhook

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestPrivateKind(t *testing.T) {
	for kind, list := range map[string]string{
		"": "1.1.1.1 8.8.8.8 11.0.0.1 100.63.255.255 100.128.0.1 169.253.1.1 172.15.0.1 172.32.0.1 192.167.1.1 223.255.255.255 " +
			"2606:4700::1111 2a00:1450::1 ::ffff:1.1.1.1 64:ff9b::1.1.1.1 2002:0101:0101::1 2620:fe::fe",
		"the unspecified":  "0.0.0.0 :: ::ffff:0.0.0.0",
		"loopback":         "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1",
		"multicast":        "224.0.0.1 239.1.2.3 ff02::1 ff0e::1 ::ffff:224.0.0.1",
		"metadata":         "169.254.169.254 ::ffff:169.254.169.254 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 64:ff9b::a9fe:a9fe",
		"private address":  "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 ::ffff:10.1.2.3 64:ff9b::10.1.2.3 2002:0a01:0203::1 2002:c0a8:0101::",
		"link-local":       "169.254.1.1 fe80::1 fe80::1%eth0 febf::1",
		"unique-local":     "fc00::1 fdff:ffff::1 fec0::1",
		"carrier":          "100.64.0.1 100.127.255.255",
		"reserved":         "0.1.2.3 192.0.0.1 192.0.2.1 198.18.0.1 198.19.255.255 240.0.0.1 255.255.255.255 ::127.0.0.1 ::ffff:0:127.0.0.1 64:ff9b:1::1 2001:0:4136::1 2001:db8::1",
		"(NAT64) of a loo": "64:ff9b::127.0.0.1",
		"(6to4) of a loo":  "2002:7f00:0001::1",
	} {
		for text := range strings.FieldsSeq(list) {
			if got := privateKind(netip.MustParseAddr(text)); (got == "") != (kind == "") || !strings.Contains(got, kind) {
				t.Errorf("%s is %q, want %q", text, got, kind)
			}
		}
	}
}

func TestProxyIsRefused(t *testing.T) {
	request := &http.Request{URL: &url.URL{Scheme: "https", Host: "example.com"}}
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		proxy *url.URL
		err   error
		says  string
	}{
		"none":   {nil, nil, ""},
		"one":    {&url.URL{Scheme: "http", Host: "proxy:3128"}, nil, "NO_PROXY"},
		"broken": {nil, broken, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, err := refuseProxy(func(*http.Request) (*url.URL, error) { return tt.proxy, tt.err })(request)
			if proxy != nil {
				t.Errorf("uses the proxy %v", proxy)
			}
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %q", err, tt.says)
			}
		})
	}
}
