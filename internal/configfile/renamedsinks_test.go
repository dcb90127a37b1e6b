package configfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRenamedKeysOfSinksAndJournal: each old key is one error, at its place, with the new name.
func TestRenamedKeysOfSinksAndJournal(t *testing.T) {
	const top = "cluster: c\nresources: [{resource: pods}]\n"
	sink := func(keys string) string { return top + "sinks:\n  - {name: out, " + keys + "}\n" }
	journal := func(keys string) string {
		return top + "sinks: [{name: out, type: stdout}]\njournal: {" + keys + "}\n"
	}
	const address = `as in servers: ["nats://nats:4222"]`
	for _, test := range []struct{ body, want string }{
		{sink("type: nats, url: 'nats://127.0.0.1'"), "sinks[0].url: was renamed: use servers, " + address},
		{sink("type: kafka, topic: t, brokers: [a]"), "sinks[0].brokers: was renamed: use servers"},
		{sink("type: nats, servers: 'nats://127.0.0.1', credsFile: f"), "sinks[0].credsFile: was renamed: use auth.credsFile"},
		{sink("type: nats, servers: 'nats://127.0.0.1', nkeyFile: f"), "sinks[0].nkeyFile: was renamed: use auth.nkeyFile"},
		{sink("type: nats, servers: 'nats://127.0.0.1', tokenFile: f"), "sinks[0].tokenFile: was renamed: use auth.tokenFile"},
		{sink("type: kafka, topic: t, servers: a, sasl: {mechanism: plain, user: u}"), "sinks[0].sasl: was renamed: use auth, with username in place of user"},
		{sink("type: webhook, url: 'https://a', auth: {bearerTokenFile: f}"), "sinks[0].auth.bearerTokenFile: was renamed: use tokenFile"},
		{
			sink("type: webhook, url: 'https://a', auth: {basic: {user: u, passwordFile: f}}"),
			"sinks[0].auth.basic: was renamed: use username, and passwordFile, as in auth: {username: informd, passwordFile: /etc/informd/password}",
		},
		{sink("type: webhook, url: 'https://a', secretFile: f"), "sinks[0].secretFile: was renamed: use signing.keyFile"},
		{sink("type: webhook, url: 'https://a', allowPlaintext: true"), "sinks[0].allowPlaintext: was renamed: use allowHTTP"},
		{sink("type: nats, servers: 'nats://127.0.0.1', allowPlaintext: true"), "sinks[0].allowPlaintext: was renamed: use allowInsecureAuth"},
		{sink("type: kafka, topic: t, servers: localhost, allowPlaintext: true"), "sinks[0].allowPlaintext: was renamed: use allowInsecureAuth"},
		{sink("type: kafka, topic: t, servers: localhost, createTopics: {partitions: 1}"), "sinks[0].createTopics: was renamed: use create"},
		{sink("type: nats, servers: 'nats://127.0.0.1', historyPerObject: 1"), "sinks[0].historyPerObject: was renamed: use create.historyPerObject"},
		{sink("type: nats, servers: 'nats://127.0.0.1', maxAge: 1h"), "sinks[0].maxAge: was renamed: use create.maxAge"},
		{sink("type: nats, servers: 'nats://127.0.0.1', maxBytes: 1GiB"), "sinks[0].maxBytes: was renamed: use create.maxBytes"},
		{sink("type: nats, servers: 'nats://127.0.0.1', replicas: 3"), "sinks[0].replicas: was renamed: use create.replicas"},
		{sink("type: file, path: /tmp/a, maxSize: 1MiB"), "sinks[0].maxSize: was renamed: use maxBytes"},
		{journal("tombstoneTTL: 1h"), "journal.tombstoneTTL: was renamed: use deletedRetention"},
		{top + "sinks: [{name: out, type: stdout}]\nadmin: {allowPlaintext: true}\n", "admin.allowPlaintext: was renamed: use allowHTTP"},
	} {
		path, _, _ := strings.Cut(test.want, ":")
		column := strings.Index(strings.Split(test.body, "\n")[3], path[strings.LastIndex(path, ".")+1:]+":") + 1
		_, err := parseWith(test.body)
		if diff := cmp.Diff(fmt.Sprintf("config.yaml:4:%d: %s", column, test.want), text(err)); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", strings.TrimPrefix(test.body, top), diff)
		}
	}
}
