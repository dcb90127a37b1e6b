package configfile_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
)

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
