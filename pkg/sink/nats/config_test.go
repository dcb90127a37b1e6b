package nats_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestValidate(t *testing.T) {
	const canary = "canary-8e0d"
	sinktest.Validate(t, nats.Driver(), canary, map[string][2]string{
		"least":               {"servers: [nats://nats:4222]", ""},
		"several servers":     {"servers: ['nats://a:4222', 'tls://b:4222', wss://c]", ""},
		"all of a stream":     {"servers: [nats://n]\nsubjectPrefix: a.b\nstream: S\ncreate: {maxAge: 72h, maxBytes: 10GiB, replicas: 3}", ""},
		"formats":             {"servers: [nats://n]\nformat: raw", ""},
		"unknown format":      {"servers: [nats://n]\nformat: structured", "format"},
		"no servers":          {"jetstream: true", "servers"},
		"list in text":        {"servers: ['nats://u:canary-8e0d@a,nats://b']", "servers"},
		"empty among servers": {"servers: [nats://a, '', nats://b]", "servers[1]"},
		"no scheme":           {"servers: [canary-8e0d:4222]", "servers"},
		"other scheme":        {"servers: [https://canary-8e0d]", "servers"},
		"no host":             {"servers: [nats://canary-8e0d@]", "servers"},
		"not an address":      {"servers: [nats://n, 'nats://u:canary-8e0d%zz@host']", "servers[1]"},
		"bad port":            {"servers: ['nats://u:p@host:canary-8e0d']", "servers"},
		"prefix":              {"servers: [nats://n]\nsubjectPrefix: 'a..b'", "subjectPrefix"},
		"prefix wildcard":     {"servers: [nats://n]\nsubjectPrefix: 'k8s.>'", "subjectPrefix"},
		"stream with a dot":   {"servers: [nats://n]\nstream: a.b", "stream"},
		"no stream name":      {"servers: [nats://n]\nstream: ''", "stream"},
		"limits of nothing":   {"servers: [nats://n]\njetstream: false\ncreate: {maxAge: 1h}", "create"},
		"history of nothing":  {"servers: [nats://n]\njetstream: false\ncreate: {historyPerObject: 1}", "create"},
		"without a stream":    {"servers: [nats://n]\njetstream: false", ""},
		"all of history":      {"servers: [nats://n]\ncreate: {historyPerObject: 0}", ""},
		"negative history":    {"servers: [nats://n]\ncreate: {historyPerObject: -1}", "create.historyPerObject"},
		"negative age":        {"servers: [nats://n]\ncreate: {maxAge: -1h}", "create.maxAge"},
		"replicas":            {"servers: [nats://n]\ncreate: {replicas: 6}", "create.replicas"},
		"half a key pair":     {"servers: [nats://n]\ntls: {certFile: c}", "tls"},
		"two credentials":     {"servers: [nats://n]\nauth: {credsFile: c, nkeyFile: n}", "auth"},
		"user and creds":      {"servers: [tls://u:canary-8e0d@n]\nauth: {credsFile: c}", "auth"},
		"mechanism":           {"servers: [tls://n]\nauth: {mechanism: plain, username: u, passwordFile: p}", "auth.mechanism"},
		"half a login":        {"servers: [tls://n]\nauth: {username: u}", "auth"},
		"creds in the clear":  {"servers: [nats://n]\nauth: {credsFile: c}", ""}, // signs, does not send
		"password exposed":    {"servers: [nats://u:canary-8e0d@n]", "servers"},
		"own login exposed":   {"servers: [nats://n]\nauth: {username: u, password: canary-8e0d}", "servers"},
		"token exposed":       {"servers: [nats://n]\nauth: {tokenFile: t}", "servers"},
		"exposed to one":      {"servers: ['nats://u:p@localhost', 'nats://u:canary-8e0d@n']", "servers[1]"},
		"TLS off, and tls://": {"servers: [nats://a, tls://n]\ntls: {enabled: false}", "tls.enabled"},
		"TLS off, and wss://": {"servers: [wss://n]\ntls: {enabled: false}", "tls.enabled"},
		"TLS off":             {"servers: [nats://n]\ntls: {enabled: false}", ""},
		"password over TLS":   {"servers: [tls://u:p@n]", ""},
		"login over TLS":      {"servers: [nats://n]\ntls: {enabled: true}\nauth: {username: u, passwordFile: p}", ""},
		"password, tls key":   {"servers: [nats://u:p@n]\ntls: {caFile: c}", ""},
		"password at home":    {"servers: ['nats://u:p@127.0.0.1', 'nats://u:p@[::1]:4222', 'nats://u:p@localhost']", ""},
		"password allowed":    {"servers: [nats://u:p@n]\nallowInsecureAuth: true", ""},
	})
}

// TestOpenNeedsItsFiles names files that are not there, or hold something else.
func TestOpenNeedsItsFiles(t *testing.T) {
	least := func(change func(c *nats.Config)) sink.Config { return config(t, "nats://127.0.0.1:1", change) }
	sinktest.NamesFiles(t, least, map[string]func(c *nats.Config, file string){
		"credsFile":    func(c *nats.Config, file string) { c.Auth.CredsFile = file },
		"nkeyFile":     func(c *nats.Config, file string) { c.Auth.NkeyFile = file },
		"tokenFile":    func(c *nats.Config, file string) { c.Auth.TokenFile = file },
		"passwordFile": func(c *nats.Config, file string) { c.Auth.Username, c.Auth.PasswordFile = "u", file },
		"caFile":       func(c *nats.Config, file string) { c.TLS.CAFile = file },
		"certFile":     func(c *nats.Config, file string) { c.TLS.CertFile, c.TLS.KeyFile = file, file },
	})
}

func config(t *testing.T, url string, change func(c *nats.Config)) *nats.Config {
	t.Helper()
	return sinktest.Options(t, nats.Driver(), func(c *nats.Config) { c.Servers = connection.NewServers(url) }, change)
}
