package configfile_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
	"github.com/informd/informd/pkg/sink/nats"
)

const connectionBase = "cluster: c\nresources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\n"

// TestServers: a list of addresses, or one as text, from the file and the environment.
func TestServers(t *testing.T) {
	t.Setenv("TEST_SERVER", "nats://u:p@127.0.0.1:4222")
	t.Setenv("TEST_SERVERS", "nats://127.0.0.1:2, nats://127.0.0.1:3")
	for value, want := range map[string][]string{
		"nats://127.0.0.1:4222":                               {"nats://127.0.0.1:4222"},
		"[nats://127.0.0.1:1, nats://127.0.0.1:2]":            {"nats://127.0.0.1:1", "nats://127.0.0.1:2"},
		"'${env:TEST_SERVER}'":                                {"nats://u:p@127.0.0.1:4222"},
		"['nats://127.0.0.1:1', '${env:TEST_SERVER}']":        {"nats://127.0.0.1:1", "nats://u:p@127.0.0.1:4222"},
		"'${env:TEST_SERVERS}'":                               {"nats://127.0.0.1:2", "nats://127.0.0.1:3"},
		"['nats://127.0.0.1:1', '${env:TEST_SERVERS}']":       {"nats://127.0.0.1:1", "nats://127.0.0.1:2", "nats://127.0.0.1:3"},
		"\n    - nats://127.0.0.1:1\n    - tls://nats:4222\n": {"nats://127.0.0.1:1", "tls://nats:4222"},
	} {
		c := mustParse(t, connectionBase+"journal:\n  type: nats\n  servers: "+value+"\n")
		if diff := cmp.Diff(want, c.Journal.Servers.Reveal()); diff != "" {
			t.Errorf("servers: %s (-want +got):\n%s", value, diff)
		}
	}
}

func TestServersFromTheEnvironment(t *testing.T) {
	t.Setenv("INFORMD_JOURNAL_SERVERS", "tls://nats:4222, tls://nats-2:4222")
	t.Setenv("INFORMD_JOURNAL_AUTH_USERNAME", "informd")
	t.Setenv("INFORMD_JOURNAL_AUTH_PASSWORD", "canary")
	path := write(t, filepath.Join(t.TempDir(), "c.yaml"), connectionBase+"journal: {type: nats, servers: [a, b]}\n")
	c, err := configfile.Load(configfile.Source{Path: path, Drivers: drivers.All()})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Journal.Servers.Reveal(); !slices.Equal(got, []string{"tls://nats:4222", "tls://nats-2:4222"}) || c.Journal.Auth.Username != "informd" || c.Journal.Auth.Password.Reveal() != "canary" {
		t.Errorf("servers %q, auth %+v", got, c.Journal.Auth)
	}
}

// TestServersOfAVariable: a mistake in one of several addresses names the key of the file, and
// the variable.
func TestServersOfAVariable(t *testing.T) {
	t.Setenv("TEST_SERVERS", "nats://127.0.0.1:1,ftp://x,")
	const scheme = "is not an address like nats://host:4222 or tls://host:4222 (reserved characters in a password must be percent-encoded)"
	const empty = "is empty: write the address of a server, as in [nats://nats-1:4222, nats://nats-2:4222]"
	const sink, journal = "sinks: [{name: bus, type: nats, servers: VALUE}]\n", "sinks: [{name: out, type: stdout}]\njournal: {type: nats, servers: VALUE}\n"
	for name, tt := range map[string]struct {
		config, value string
		want          []string
	}{
		"alone": {sink, `"${env:TEST_SERVERS}"`, []string{
			"3:42: sinks[0].servers: address 2 of environment variable TEST_SERVERS " + scheme,
			"3:42: sinks[0].servers: address 3 of environment variable TEST_SERVERS " + empty,
		}},
		"in a list": {sink, `["ftp://a", "${env:TEST_SERVERS}", "ftp://b"]`, []string{
			"3:43: sinks[0].servers[0]: " + scheme,
			"3:54: sinks[0].servers[1]: address 2 of environment variable TEST_SERVERS " + scheme,
			"3:54: sinks[0].servers[1]: address 3 of environment variable TEST_SERVERS " + empty,
			"3:77: sinks[0].servers[2]: " + scheme,
		}},
		"of the journal": {journal, `"${env:TEST_SERVERS}"`, []string{
			"4:32: journal.servers: address 2 of environment variable TEST_SERVERS " + scheme,
			"4:32: journal.servers: address 3 of environment variable TEST_SERVERS " + empty,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			body := "cluster: c\nresources: [pods]\n" + strings.Replace(tt.config, "VALUE", tt.value, 1)
			_, err := configfile.Parse("c", []byte(body), drivers.All())
			want := "c:" + strings.Join(tt.want, "\nc:")
			if diff := cmp.Diff(want, text(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
	t.Setenv("INFORMD_JOURNAL_SERVERS", "ftp://x, nats://127.0.0.1:2")
	path := write(t, filepath.Join(t.TempDir(), "c.yaml"), connectionBase+"journal: {type: nats, servers: [a, b]}\n")
	_, err := configfile.Load(configfile.Source{Path: path, Drivers: drivers.All()})
	if want := "INFORMD_JOURNAL_SERVERS: journal.servers[0]: " + scheme; text(err) != want {
		t.Errorf("error %q, want %q", text(err), want)
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
		body := "cluster: c\nresources: [{resource: pods}]\nsinks:\n  - name: bus\n    type: nats\n    servers: nats://127.0.0.1:4222\n    create: " + value + "\n"
		c, err := configfile.Parse("config.yaml", []byte(body), drivers.All())
		if err != nil {
			t.Errorf("create: %s: %v", value, err)
			continue
		}
		options, ok := c.Sinks[0].Options.(*nats.Config)
		if !ok {
			t.Fatalf("the options are a %T", c.Sinks[0].Options)
		}
		if diff := cmp.Diff(want, options.Create); diff != "" {
			t.Errorf("create: %s (-want +got):\n%s", value, diff)
		}
	}
	_, err := configfile.Parse("config.yaml", []byte("cluster: c\nresources: [{resource: pods}]\nsinks: [{name: bus, type: nats, servers: nats://127.0.0.1, create: never}]\n"), drivers.All())
	if !strings.Contains(text(err), "sinks[0].create: must be true, false or a mapping with the keys historyPerObject, maxAge, maxBytes, replicas, not text") {
		t.Errorf("create: never: %v", err)
	}
}

// TestSinkSharesPrefixWithJournal: the default prefixes are the same, so a nats journal and a
// nats sink on one server need another one for the sink. Another name may lead to the same
// server, so the default is refused there, too.
func TestSinkSharesPrefixWithJournal(t *testing.T) {
	config := func(sink string) string {
		return "cluster: c\nresources: [{resource: pods}]\njournal: {type: nats, servers: ['nats://127.0.0.1:4222', 'nats://127.0.0.1:4223']}\nsinks: [{name: bus, type: nats, " + sink + "}]\n"
	}
	parse := func(body string) string {
		_, err := parseWith(body)
		return text(err)
	}
	if got := parse(config("servers: ['nats://localhost:4223']")); !strings.Contains(got, "sinks[0].subjectPrefix") || !strings.Contains(got, "set another subjectPrefix") {
		t.Errorf("a common server: %q", got)
	}
	if got := parse(config("servers: ['nats://nats.example.com']")); !strings.Contains(got, "sinks[0]: publishes on subjects of the journal if both use one NATS system") {
		t.Errorf("another name: %q", got)
	}
	for name, sink := range map[string]string{
		"another prefix": "servers: ['nats://localhost:4223'], subjectPrefix: events",
		"another server": "servers: ['nats://127.0.0.1:4224'], subjectPrefix: k8s",
	} {
		if got := parse(config(sink)); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// parseWith parses with the real drivers.
func parseWith(body string) (*config.Config, error) {
	return configfile.Parse("config.yaml", []byte(body), drivers.All())
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
		if _, err := parseWith(body("condition: object.spec.x == 1")); !strings.Contains(text(err), "never true") {
			t.Errorf("group %s: a condition that is never true: %v", group, err)
		}
	}
}
