package postgres

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

const (
	// Type is the value of `type:` for this sink.
	Type = "postgres"

	defaultPort   = "5432"
	defaultSchema = "informd"
	// minRetention is the shortest useful history: deletions come in rounds of minutes.
	minRetention = time.Minute
)

// Driver returns the postgres sink type. It has one lane: a transaction has the events in their order.
func Driver() sink.Driver {
	return sink.Driver{
		Type:   Type,
		New:    func() sink.Config { return &Config{Schema: defaultSchema} },
		Lanes:  1,
		Remote: true,
	}
}

// Config is the options of a postgres sink.
type Config struct {
	// Servers are the addresses of PostgreSQL or a pooler, "host" or "host:port". Of several, informd
	// uses the first one that takes writes.
	Servers connection.Servers `yaml:"servers"`
	// Database is the name of the database, which must exist.
	Database string `yaml:"database"`
	// Schema is the schema of informd's tables. informd creates it if it does not exist. A schema has
	// the events of one sink for each cluster.
	Schema    string    `yaml:"schema"`
	Retention Retention `yaml:"retention"`
	// Auth takes username with passwordFile or password, or username alone. The file is read again for
	// every connection.
	Auth connection.Auth `yaml:"auth"`
	TLS  connection.TLS  `yaml:"tls"`
	// AllowInsecureAuth permits a connection without TLS to another machine with a password, and
	// without a warning.
	AllowInsecureAuth bool `yaml:"allowInsecureAuth"`
}

// Retention limits the rows of the table history. Default: informd deletes none. It never deletes the
// last row of an object that exists, and none of the newest 10,000 rows.
type Retention struct {
	// Age is how long a row stays. 0: without limit.
	Age time.Duration `yaml:"age"`
	// PerObject is how many rows of one object stay. 0: without limit.
	PerObject int `yaml:"perObject"`
}

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := sink.Problems(slices.Concat(
		c.Servers.Validate("postgres-1:5432, postgres-2:5432", wrongAddress), c.validateAuth(), c.TLS.Validate()))
	if c.Database == "" || strings.ContainsRune(c.Database, 0) {
		problems.Add("database", "is required: the name of a database that exists")
	}
	if !regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`).MatchString(c.Schema) || strings.HasPrefix(c.Schema, "pg_") {
		problems.Add("schema", "%q is not a name for the schema: use at most 63 of a-z, 0-9 and _, as in informd",
			c.Schema)
	}
	if c.Retention.Age < 0 || c.Retention.Age > 0 && c.Retention.Age < minRetention {
		problems.Add("retention.age", "must be at least %v, or 0 for no limit", minRetention)
	}
	if c.Retention.PerObject < 0 || c.Retention.PerObject > maxPerObject {
		problems.Add("retention.perObject", "must be between 1 and %d, or 0 for no limit", maxPerObject)
	}
	return problems
}

func (c *Config) validateAuth() []sink.Problem {
	checked := c.Auth
	if !checked.HasPassword() {
		checked.Username = "" // a certificate, or the server trusts the machine
	}
	problems := checked.Validate("PostgreSQL", connection.Username, connection.Password, connection.PasswordFile)
	switch {
	case problems != nil:
	case c.Auth.Username == "":
		problems = []sink.Problem{{Key: "auth", Message: "username is required: the role that informd logs in as"}}
	case c.Auth.HasPassword():
		if key, host := c.Exposed(); host != "" {
			problems = []sink.Problem{{Key: "auth", Message: "would send a password without TLS over the network to the server of " + key +
				"; set tls, or allowInsecureAuth: true"}}
		}
	}
	return problems
}

// wrongAddress never shows the address: a user may have put a URL with a password into it.
func wrongAddress(address string) string {
	if _, _, err := connection.HostPort(address, defaultPort); err != nil {
		return "is not the address of a server: host:port without a scheme, as in postgres-1:5432; the keys database, auth and tls set the rest"
	}
	return ""
}

// Exposed implements [sink.Exposer].
func (c *Config) Exposed() (key, host string) { return c.Servers.Exposed(c.TLS, c.AllowInsecureAuth) }

// Destination implements [sink.Destined]: the table cursors has an identity.
func (c *Config) Destination() (name string, identified bool) {
	return strings.Join(c.Servers.Reveal(), ",") + "/" + c.Database + "/" + c.Schema, true
}

// Open implements [sink.Config]. It fails if a file that a key names cannot be read or has the wrong
// content, and does not wait for the server.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	if _, err := c.connectConfig(env); err != nil {
		return nil, err
	}
	return newTables(c, env), nil
}

// sql puts the name of the schema into statements.
func (c *Config) sql(text string) string {
	quoted := `"` + c.Schema + `"` // it may be a word of SQL, such as user
	return strings.ReplaceAll(strings.ReplaceAll(text, "schema.", quoted+"."), `"$schema"`, quoted)
}
