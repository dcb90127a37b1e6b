package configfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
	"github.com/informd/informd/pkg/sink/nats"
)

// natsConfig reads a config with a sink that has this key, as a block.
func natsConfig(t *testing.T, key string) *nats.Config {
	t.Helper()
	c, err := parseWith("cluster: c\nresources: [pods]\nsinks:\n  - name: bus\n    type: nats\n    " + key + "\n")
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	options, ok := c.Sinks[0].Options.(*nats.Config)
	if !ok {
		t.Fatalf("the options are a %T", c.Sinks[0].Options)
	}
	return options
}

// TestServers: a list of addresses, or one as text, also from variables.
func TestServers(t *testing.T) {
	t.Setenv("TEST_SERVER", "nats://u:p@127.0.0.1:4222")
	t.Setenv("TEST_SERVERS", "nats://127.0.0.1:2, nats://127.0.0.1:3")
	for value, want := range map[string][]string{
		"nats://127.0.0.1:4222":                                   {"nats://127.0.0.1:4222"},
		"[nats://127.0.0.1:1, nats://127.0.0.1:2]":                {"nats://127.0.0.1:1", "nats://127.0.0.1:2"},
		"'${env:TEST_SERVER}'":                                    {"nats://u:p@127.0.0.1:4222"},
		"['nats://127.0.0.1:1', '${env:TEST_SERVER}']":            {"nats://127.0.0.1:1", "nats://u:p@127.0.0.1:4222"},
		"'${env:TEST_SERVERS}'":                                   {"nats://127.0.0.1:2", "nats://127.0.0.1:3"},
		"['nats://127.0.0.1:1', '${env:TEST_SERVERS}']":           {"nats://127.0.0.1:1", "nats://127.0.0.1:2", "nats://127.0.0.1:3"},
		"\n      - nats://127.0.0.1:1\n      - tls://nats:4222\n": {"nats://127.0.0.1:1", "tls://nats:4222"},
	} {
		if diff := cmp.Diff(want, natsConfig(t, "servers: "+value).Servers.Reveal()); diff != "" {
			t.Errorf("servers: %s (-want +got):\n%s", value, diff)
		}
	}
}

// TestServersOfAVariable: a mistake in one of several addresses names the key of the file, and
// the variable.
func TestServersOfAVariable(t *testing.T) {
	t.Setenv("TEST_SERVERS", "nats://127.0.0.1:1,ftp://x,")
	const scheme = "is not an address like nats://host:4222 or tls://host:4222 (reserved characters in a password must be percent-encoded)"
	const empty = "is empty: write the address of a server, as in [nats://nats-1:4222, nats://nats-2:4222]"
	for name, tt := range map[string]struct {
		value string
		want  []string
	}{
		"alone": {`"${env:TEST_SERVERS}"`, []string{
			"3:42: sinks[0].servers: address 2 of environment variable TEST_SERVERS " + scheme,
			"3:42: sinks[0].servers: address 3 of environment variable TEST_SERVERS " + empty,
		}},
		"in a list": {`["ftp://a", "${env:TEST_SERVERS}", "ftp://b"]`, []string{
			"3:43: sinks[0].servers[0]: " + scheme,
			"3:54: sinks[0].servers[1]: address 2 of environment variable TEST_SERVERS " + scheme,
			"3:54: sinks[0].servers[1]: address 3 of environment variable TEST_SERVERS " + empty,
			"3:77: sinks[0].servers[2]: " + scheme,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			body := "cluster: c\nresources: [pods]\nsinks: [{name: bus, type: nats, servers: " + tt.value + "}]\n"
			_, err := configfile.Parse("c", []byte(body), drivers.All())
			want := "c:" + strings.Join(tt.want, "\nc:")
			if diff := cmp.Diff(want, text(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCreate: a block of keys, or true or false.
func TestCreate(t *testing.T) {
	for value, want := range map[string]nats.Create{
		"true":                        {HistoryPerObject: 16},
		"false":                       {HistoryPerObject: 16, Never: true},
		"{}":                          {HistoryPerObject: 16},
		"{replicas: 3}":               {HistoryPerObject: 16, Replicas: 3},
		"{historyPerObject: 0}":       {},
		"\n      historyPerObject: 1": {HistoryPerObject: 1},
	} {
		if diff := cmp.Diff(want, natsConfig(t, "servers: nats://127.0.0.1:4222\n    create: "+value).Create); diff != "" {
			t.Errorf("create: %s (-want +got):\n%s", value, diff)
		}
	}
	_, err := parseWith("cluster: c\nresources: [pods]\nsinks: [{name: bus, type: nats, servers: nats://a, create: never}]\n")
	if !strings.Contains(text(err), "sinks[0].create: must be true, false or a mapping with the keys historyPerObject, maxAge, maxBytes, replicas, not text") {
		t.Errorf("create: never: %v", err)
	}
}

// TestCoreInMatch: "core" is the core group for every check of a match.
func TestCoreInMatch(t *testing.T) {
	for _, group := range []string{"core", `""`} {
		body := func(match string) string {
			return "cluster: c\nresources: [{resource: pods, keep: [status]}]\nsinks: [{name: out, type: stdout, match: [{group: " + group + ", resource: pods, " + match + "}]}]\n"
		}
		if _, err := parseWith(body("changed: [status.phase]")); err != nil {
			t.Errorf("group %s: %v", group, err)
		}
		if _, err := parseWith(body("condition: object.spec.x == 1")); !strings.Contains(text(err), "no event that it matches has") {
			t.Errorf("group %s: a condition that is never true: %v", group, err)
		}
	}
}

// TestPlaintext: one rule holds for all connections to other machines that are not
// encrypted: secrets and webhooks are a mistake, all else is a warning.
func TestPlaintext(t *testing.T) {
	const free, warned, refused, refusedHTTP = "", "without TLS", "allowInsecureAuth", "allowHTTP"
	nats := func(more string) string {
		return "sinks: [{name: out, type: nats, " + more + "}]\n"
	}
	kafka := func(more string) string {
		return "sinks: [{name: out, type: kafka, topic: t, " + more + "}]\n"
	}
	tables := func(more string) string {
		return "sinks: [{name: out, type: postgres, servers: [db-1], database: d, " + more + "}]\n"
	}
	admin := func(more string) string {
		return "sinks: [{name: out, type: stdout}]\nadmin: {" + more + "}\n"
	}
	for name, test := range map[string]struct {
		body string
		key  string
		want string
		bad  bool
	}{
		"nats on this machine":       {nats("servers: 'nats://127.0.0.1:4222'"), "", free, false},
		"nats":                       {nats("servers: ['nats://127.0.0.1:4222', 'nats://bus:4222']"), "sinks[0].servers[1]", warned, false},
		"nats with TLS":              {nats("servers: 'tls://bus:4222'"), "", free, false},
		"nats with tls":              {nats("servers: 'nats://bus:4222', tls: {caFile: /ca}"), "", free, false},
		"nats, allowed":              {nats("servers: 'nats://bus:4222', allowInsecureAuth: true"), "", free, false},
		"nats with a seed":           {nats("servers: 'nats://bus:4222', auth: {nkeyFile: /nk}"), "sinks[0].servers", warned, false},
		"nats with a password":       {nats("servers: 'nats://a:b@bus:4222'"), "sinks[0].servers", refused, true},
		"kafka on this machine":      {kafka("servers: ['localhost:9092']"), "", free, false},
		"kafka":                      {kafka("servers: ['localhost:9092', 'log-1']"), "sinks[0].servers[1]", warned, false},
		"kafka with TLS":             {kafka("servers: [log-1], tls: {enabled: true}"), "", free, false},
		"kafka, allowed":             {kafka("servers: [log-1], allowInsecureAuth: true"), "", free, false},
		"kafka with a challenge":     {kafka("servers: [log-1], auth: {mechanism: scram-sha-512, username: u, passwordFile: /p}"), "sinks[0].servers", warned, false},
		"kafka with a password":      {kafka("servers: [log-1], auth: {mechanism: plain, username: u, passwordFile: /p}"), "sinks[0].auth", refused, true},
		"postgres":                   {tables("auth: {username: u}"), "sinks[0].servers", warned, false},
		"postgres with TLS":          {tables("auth: {username: u, passwordFile: /p}, tls: {enabled: true}"), "", free, false},
		"postgres with a password":   {tables("auth: {username: u, passwordFile: /p}"), "sinks[0].auth", refused, true},
		"webhook":                    {"sinks: [{name: out, type: webhook, url: 'http://hook/'}]\n", "sinks[0].url", refusedHTTP, true},
		"admin on this machine":      {admin("listen: '127.0.0.1:8080'"), "", free, false},
		"admin on all addresses":     {admin("listen: ':8080'"), "admin.listen", warned, false},
		"admin on an address":        {admin("listen: '10.0.0.1:8080'"), "admin.listen", warned, false},
		"admin with TLS":             {admin("listen: ':8080', tls: {certFile: /c, keyFile: /k}"), "", free, false},
		"admin, allowed":             {admin("listen: ':8080', allowHTTP: true"), "", free, false},
		"admin with a token":         {admin("listen: ':8080', tokenFile: /t"), "admin.tokenFile", refusedHTTP, true},
		"admin with a token allowed": {admin("listen: ':8080', tokenFile: /t, allowHTTP: true"), "", free, false},
		"no admin":                   {admin("listen: ''"), "", free, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := configfile.Parse("config.yaml", []byte("cluster: c\nresources: [{resource: pods}]\n"+test.body), drivers.All())
			got := text(err)
			if (err != nil) != test.bad {
				t.Fatalf("error: %v", err)
			}
			if !test.bad {
				got = ""
				if len(c.Warnings) > 0 {
					got = c.Warnings.Error()
				}
			}
			if !strings.Contains(got, test.want) || !strings.Contains(got, test.key) || (got == "") != (test.want == free) {
				t.Errorf("%q, want it to name %q and say %q", got, test.key, test.want)
			}
			if strings.Contains(got, "a:b") {
				t.Errorf("it shows a password: %s", got)
			}
		})
	}
}
