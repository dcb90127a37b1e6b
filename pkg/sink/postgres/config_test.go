package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/postgres"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "canary-5d1e"

// config is a valid one, changed.
func config(t *testing.T, change func(c *postgres.Config)) *postgres.Config {
	t.Helper()
	valid := func(c *postgres.Config) {
		c.Servers, c.Database, c.Auth.Username = connection.NewServers("127.0.0.1:5432"), "db", "informd"
	}
	c := sinktest.Options(t, postgres.Driver(), valid)
	change(c)
	return c
}

func open(t *testing.T, server string) sink.Sink {
	t.Helper()
	return sinktest.Open(t, config(t, func(c *postgres.Config) { c.Servers = connection.NewServers(server) }))
}

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *postgres.Config)
		want   []string
	}{
		"valid":          {func(*postgres.Config) {}, nil},
		"a certificate":  {func(c *postgres.Config) { c.TLS = connection.TLS{CertFile: "c", KeyFile: "k"} }, nil},
		"no database":    {func(c *postgres.Config) { c.Database = "" }, []string{"database"}},
		"a URL":          {func(c *postgres.Config) { c.Servers = connection.NewServers("postgres://u:" + canary + "@host/db") }, []string{"servers"}},
		"port 0":         {func(c *postgres.Config) { c.Servers = connection.NewServers("a:0", "b") }, []string{"servers[0]"}},
		"a quoted name":  {func(c *postgres.Config) { c.Schema = `a"b` }, []string{"schema"}},
		"a system name":  {func(c *postgres.Config) { c.Schema = "pg_catalog" }, []string{"schema"}},
		"no user":        {func(c *postgres.Config) { c.Auth.Username = "" }, []string{"auth"}},
		"short history":  {func(c *postgres.Config) { c.Retention.Age = time.Second }, []string{"retention.age"}},
		"negative":       {func(c *postgres.Config) { c.Retention = postgres.Retention{Age: -1, PerObject: -1} }, []string{"retention.age", "retention.perObject"}},
		"half a pair":    {func(c *postgres.Config) { c.TLS.CertFile = "c" }, []string{"tls"}},
		"no password":    {func(c *postgres.Config) { c.Auth.Token = sink.NewSecret(canary) }, []string{"auth.token"}},
		"shown password": {exposed, []string{"auth"}},
		"allowed":        {func(c *postgres.Config) { exposed(c); c.AllowInsecureAuth = true }, nil},
		"encrypted":      {func(c *postgres.Config) { exposed(c); c.TLS.Enabled = new(true) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, sinktest.Problems(t, config(t, test.change), canary)); diff != "" {
				t.Errorf("keys with problems (-want +got):\n%s", diff)
			}
		})
	}
}

// exposed sends a password to another machine.
func exposed(c *postgres.Config) {
	c.Servers = connection.NewServers("db.example.com")
	c.Auth.Password = sink.NewSecret(canary)
}

func TestExposed(t *testing.T) {
	c := config(t, func(c *postgres.Config) { c.Servers = connection.NewServers("127.0.0.1", "db.example.com") })
	if key, host := c.Exposed(); key != "servers[1]" || host != "db.example.com" {
		t.Errorf("exposed: %q, %q", key, host)
	}
	c.TLS.Enabled = new(true)
	if key, host := c.Exposed(); key != "" || host != "" {
		t.Errorf("exposed with TLS: %q, %q", key, host)
	}
}

// TestOpenNeedsItsFiles names files that are not there, or hold something else.
func TestOpenNeedsItsFiles(t *testing.T) {
	valid := func(change func(c *postgres.Config)) sink.Config { return config(t, change) }
	sinktest.NamesFiles(t, valid, map[string]func(c *postgres.Config, file string){
		"auth.passwordFile": func(c *postgres.Config, file string) { c.Auth.PasswordFile = file },
		"tls.caFile":        func(c *postgres.Config, file string) { c.TLS.CAFile = file },
	})
}

// TestEnvironmentDoesNotCount: no variable of libpq changes the connection. Each that the library reads has a value
// that would end the login.
func TestEnvironmentDoesNotCount(t *testing.T) {
	for name, value := range map[string]string{
		"PGHOST": "192.0.2.1", "PGPORT": "nonsense", "PGUSER": "somebody", "PGDATABASE": "other", "PGPASSWORD": "other", "PGPASSFILE": "/none",
		"PGSSLMODE": "nonsense", "PGSSLCERT": "/none", "PGSSLKEY": "/none", "PGSSLROOTCERT": "/none", "PGSSLCERTMODE": "nonsense", "PGSSLNEGOTIATION": "nonsense",
		"PGTARGETSESSIONATTRS": "nonsense", "PGCONNECT_TIMEOUT": "nonsense", "PGCHANNELBINDING": "nonsense", "PGREQUIREAUTH": "nonsense",
		"PGMINPROTOCOLVERSION": "nonsense", "PGMAXPROTOCOLVERSION": "nonsense", "PGOPTIONS": "nonsense", "PGTZ": "nonsense", "PGAPPNAME": "other",
	} {
		t.Setenv(name, value)
	}
	address, login := listen(t, "E\x00\x00\x00\x17SFATAL\x00C28000\x00Mno\x00\x00\x00\x00\x00")
	if _, err := open(t, address).Write(t.Context(), sinktest.Events(1)); err == nil {
		t.Error("a login that was refused is no error")
	}
	parameters := strings.Split(strings.Trim(<-login, "\x00"), "\x00")
	got := map[string]string{}
	for i := 0; i+1 < len(parameters); i += 2 {
		got[parameters[i]] = parameters[i+1]
	}
	want := map[string]string{"user": "informd", "database": "db", "client_encoding": "UTF8", "application_name": "informd/" + sinktest.Env(t).Cluster + "/" + sinktest.Env(t).Name}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the login (-want +got):\n%s", diff)
	}
}

// TestServiceIsRefused: a service would decide what the config leaves open.
func TestServiceIsRefused(t *testing.T) {
	t.Setenv("PGSERVICE", "elsewhere")
	if _, err := config(t, func(*postgres.Config) {}).Open(t.Context(), sinktest.Env(t)); err == nil || !strings.Contains(err.Error(), "PGSERVICE") {
		t.Errorf("the error is %v", err)
	}
}
