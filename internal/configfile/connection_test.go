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
