package sinks_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/postgres"
	"github.com/informd/informd/pkg/sink/sinktest"
	server "github.com/informd/informd/test/postgres"
)

// TestPostgresLogin: the sink works with TLS and the right login. Whatever is wrong is retried, and the error names the
// key. The password file is read again for a new connection.
func TestPostgresLogin(t *testing.T) {
	const host = "postgres.example.com"
	dir := t.TempDir()
	certFile, keyFile := sinktest.Certificate(t, filepath.Join(dir, host), host)
	otherCert, _ := sinktest.Certificate(t, filepath.Join(dir, "other"), "other")
	s := server.Start(t, server.Options{CertFile: certFile, KeyFile: keyFile})
	password := dir + "/password"
	for name, test := range map[string]struct {
		change func(c *postgres.Config)
		says   string
	}{
		"right":       {func(*postgres.Config) {}, ""},
		"without TLS": {func(c *postgres.Config) { c.TLS = connection.TLS{} }, ""},
		"wrong CA":    {func(c *postgres.Config) { c.TLS.CAFile = otherCert }, "tls.caFile"},
		"wrong host":  {func(c *postgres.Config) { c.TLS.ServerName = "" }, "tls.serverName"},
		"wrong password": {func(c *postgres.Config) {
			c.Auth = connection.Auth{Username: server.User, Password: sink.NewSecret("wrong-canary")}
		}, "check auth"},
		"wrong user":  {func(c *postgres.Config) { c.Auth.Username = "nobody" }, "check auth"},
		"no database": {func(c *postgres.Config) { c.Database = "none" }, "create the database"},
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, password, server.Password+"\n")
			c := tableConfig(s.Address(), "login")
			c.Auth = connection.Auth{Username: server.User, PasswordFile: password}
			c.TLS = connection.TLS{CAFile: certFile, ServerName: host}
			test.change(c)
			opened, err := c.Open(t.Context(), sinktest.Env(t))
			must(t, err)
			n, err := opened.Write(t.Context(), sinktest.Events(2))
			switch {
			case test.says == "" && (n != 2 || err != nil):
				t.Errorf("Write returned %d, %v", n, err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || sink.IsPermanent(err) || sink.IsUnknown(err)):
				t.Errorf("Write returned %d, %v, want %q", n, err, test.says)
			case err != nil && strings.Contains(err.Error(), "canary"):
				t.Errorf("the error shows the password: %v", err)
			}
			if err := opened.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("another password", func(t *testing.T) {
		writeFile(t, password, server.Password)
		c := tableConfig(s.Address(), "login")
		c.Auth = connection.Auth{Username: server.User, PasswordFile: password}
		d := newDatabase(t, s, func(o *postgres.Config) { *o = *c })
		d.write(sinktest.Events(1)...)
		// The first connection of the test itself is the last one with the old password.
		s.Query(t, "ALTER ROLE "+server.User+" PASSWORD 'changed'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL")
		must(t, os.WriteFile(password, []byte("changed"), 0o600))
		if n, err := d.sink.Write(t.Context(), sinktest.Events(2)); n != 2 || err != nil {
			if n, err = d.sink.Write(t.Context(), sinktest.Events(2)); n != 2 || err != nil {
				t.Errorf("Write returned %d, %v", n, err)
			}
		}
	})
}
