package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// connectTimeout bounds the making of a connection to one server, login included.
const connectTimeout = 10 * time.Second

// noEnvironment sets what the library else takes from libpq's variables. connectConfig sets the rest.
const noEnvironment = "host=localhost port=5432 user=- password=- database=- passfile=/dev/null connect_timeout=10 sslmode=disable " +
	"sslnegotiation=postgres sslcertmode=allow channel_binding=prefer target_session_attrs=any min_protocol_version=3.0 max_protocol_version=3.0 " +
	"require_auth='' sslrootcert='' sslcert='' sslkey=''"

// connectConfig makes the config of a connection. It reads the files that the options name.
func (c *Config) connectConfig(env sink.Env) (*pgconn.Config, error) {
	secure, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	password, err := c.Auth.ReadPassword()
	if err != nil {
		return nil, err
	}
	if os.Getenv("PGSERVICE") != "" { // the library would take what the config has not from the service's file
		return nil, errors.New("PGSERVICE is set in informd's environment: unset it, the config alone says where to connect")
	}
	config, err := pgconn.ParseConfig(noEnvironment)
	if err != nil {
		return nil, fmt.Errorf("make the config of the connection: %w", err)
	}
	config.Database, config.User, config.Password = c.Database, c.Auth.Username, password
	config.ConnectTimeout = connectTimeout
	// A pooler refuses parameters that it does not know.
	config.RuntimeParams = map[string]string{"application_name": applicationName(env), "client_encoding": "UTF8"}
	config.RequireAuth = ""
	config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	config.Fallbacks = nil
	for i, address := range c.Servers.Reveal() {
		host, port, err := connection.HostPort(address, defaultPort)
		if err != nil {
			return nil, fmt.Errorf("%s is not the address of a server", c.Servers.Key(i))
		}
		var to *tls.Config
		if c.TLS.Wanted() {
			to = secure.Clone()
			to.ServerName = cmp.Or(to.ServerName, host)
		}
		if i == 0 {
			config.Host, config.Port, config.TLSConfig = host, port, to
			continue
		}
		config.Fallbacks = append(config.Fallbacks, &pgconn.FallbackConfig{Host: host, Port: port, TLSConfig: to})
	}
	return config, nil
}

// applicationName is what pg_stat_activity shows. The server cuts it after 63 bytes.
func applicationName(env sink.Env) string {
	return strings.ReplaceAll("informd/"+env.Cluster+"/"+env.Name, "\x00", "")
}

// connected makes sure that there is a connection to a schema that is informd's.
func (t *tables) connected(ctx context.Context) error {
	if t.conn != nil && !t.conn.IsClosed() {
		return nil
	}
	if err := t.disconnect(ctx); err != nil {
		return err
	}
	config, err := t.options.connectConfig(t.env)
	if err != nil {
		return err
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	t.conn = conn
	switch encoding := conn.ParameterStatus("server_encoding"); {
	case encoding != "" && encoding != "UTF8": // others lack most characters
		err = fmt.Errorf("the database %s has the encoding %s: set database to one with the encoding UTF8", t.options.Database, encoding)
	case !t.prepared:
		err = t.prepare(ctx)
	}
	if err != nil {
		_ = t.disconnect(ctx) // the next attempt looks again, and waits for this end
		return err
	}
	t.prepared = true
	return nil
}

// disconnect gives up the connection, and waits until that has ended: what it had sent is done or
// undone on the server then, or the server does not answer.
func (t *tables) disconnect(ctx context.Context) error {
	if t.conn == nil {
		return nil
	}
	if !t.conn.IsClosed() {
		ended, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		// Its error is that of a connection that is given up.
		_ = t.conn.Close(ended)
	}
	select {
	case <-t.conn.CleanupDone():
	case <-ctx.Done():
		return fmt.Errorf("the connection is not closed yet: %w", ctx.Err())
	}
	t.conn = nil
	return nil
}

// statement is SQL with numbered arguments.
type statement struct {
	sql  string
	args []string
}

// exec sends statements, each with its arguments as text, together, and returns their results. After an error, those
// are of the statements before the one that failed.
func (t *tables) exec(ctx context.Context, statements ...statement) ([]*pgconn.Result, error) {
	batch := &pgconn.Batch{}
	for _, s := range statements {
		args := make([][]byte, len(s.args))
		for i, arg := range s.args {
			args[i] = []byte(arg)
		}
		batch.ExecParams(t.options.sql(s.sql), args, nil, nil, nil)
	}
	results, err := t.conn.ExecBatch(ctx, batch).ReadAll()
	return results, sink.WithContext(ctx, err)
}

// script runs statements without arguments.
func (t *tables) script(ctx context.Context, sql string) error {
	_, err := t.conn.Exec(ctx, t.options.sql(sql)).ReadAll()
	return sink.WithContext(ctx, err)
}
