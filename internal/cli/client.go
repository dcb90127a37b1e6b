package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/connection"
)

// client asks a running informd, through its admin server.
type client struct {
	base string
	http *http.Client
	// tokenFile has the token for what needs one; empty is none.
	tokenFile string
	// socket: it asks over a unix socket.
	socket bool
	// closed is why it does not ask over the socket; nil if it does, or if there is none.
	closed error
}

// asking makes cmd a command that asks a running informd. It adds --config, --server and --output with
// these formats, and runs ask. Nil are the usual formats, and one alone needs no flag. A PreRunE of the
// command checks its other flags.
func (std streams) asking(cmd *cobra.Command, formats []string, ask func(ctx context.Context, c client, output *format, args []string) error) *cobra.Command {
	configFlag(cmd)
	output := &format{value: formatText}
	if len(formats) != 1 {
		output = outputFlag(cmd, formats...)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := std.newClient(cmd.Context(), cmd.Flags())
		if err != nil {
			return err
		}
		return ask(cmd.Context(), c, output, args)
	}
	cmd.Flags().String("server", "", "address of the running informd: unix:///path, a path, http://host:port or https://host:port (default: admin of the config)")
	return cmd
}

// newClient finds the admin server of a running informd: the one that --server names, else admin.socket of
// the config, else admin.listen if the directory of the socket is on another machine or of another user. If
// it is here and nobody answers, informd does not run: at the port may be another one, or another program.
func (std streams) newClient(ctx context.Context, flags *pflag.FlagSet) (client, error) {
	if flags.Changed("server") {
		return std.clientOf(flags.Lookup("server").Value.String(), flags)
	}
	server, err := configfile.LoadAdmin(configfile.Source{Flags: flags, Drivers: std.program.Drivers})
	if err != nil {
		return client{}, err
	}
	if server.Socket == "" {
		return overTCP(server)
	}
	c := overSocket(server.Socket)
	conn, err := admin.DialSocket(ctx, server.Socket)
	switch {
	case err == nil:
		return c, conn.Close()
	case server.Listen == "", !errors.Is(err, fs.ErrPermission) && exists(filepath.Dir(server.Socket)):
		return c, nil // what it is asked says that none runs, or reads the journal
	}
	c, failed := overTCP(server)
	c.closed = err
	return c, failed
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// clientOf returns the client for an address of --server. It takes the token and the
// certificate from the config if there is one.
func (std streams) clientOf(address string, flags *pflag.FlagSet) (client, error) {
	path, isPath := socketPath(address)
	if isPath {
		return overSocket(path), nil
	}
	where, err := url.Parse(address)
	if err != nil || where.Port() == "" || where.Scheme != "http" && where.Scheme != "https" || strings.Trim(where.Path, "/") != "" || where.User != nil || where.RawQuery != "" {
		return client{}, misused("--server %q: it must be unix:///path, a path, http://host:port or https://host:port", address)
	}
	server, err := configfile.LoadAdmin(configfile.Source{Flags: flags, Drivers: std.program.Drivers, AdminOptional: true})
	if err != nil {
		return client{}, err
	}
	encrypted, local := where.Scheme == "https", connection.Loopback(where.Hostname())
	if !encrypted {
		server.TLS = config.AdminTLS{}
	}
	if server.TokenFile != "" && !encrypted && !local && !server.AllowHTTP {
		return client{}, misused("--server %s: the token of admin.tokenFile would cross the network unencrypted: use https://, or set admin.allowHTTP", address)
	}
	server.Listen = where.Host
	c, err := overTCP(server)
	c.base = where.Scheme + "://" + where.Host
	return c, err
}

// socketPath returns the path of a unix socket in an address.
func socketPath(address string) (string, bool) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		return path, path != ""
	}
	_, _, err := net.SplitHostPort(address)
	return address, address != "" && !strings.Contains(address, "://") && (err != nil || strings.Contains(address, "/"))
}

func overSocket(path string) client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return admin.DialSocket(ctx, path) }
	return client{base: "http://informd", socket: true, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

func overTCP(server config.Admin) (client, error) {
	if server.Listen == "" {
		return client{}, misused("admin.listen is empty, so informd serves no commands there; name another address with --server")
	}
	host, port, err := net.SplitHostPort(server.Listen)
	if err != nil {
		return client{}, fmt.Errorf("admin.listen %s: %w", server.Listen, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	// Through no proxy: the address is on this machine as a rule, and the token is for informd alone.
	scheme, transport := "http", &http.Transport{}
	if files := admin.TLS(server.TLS); files.Wanted() {
		scheme, transport.ForceAttemptHTTP2 = "https", true
		if transport.TLSClientConfig, err = files.ClientConfig(); err != nil {
			return client{}, err
		}
	}
	return client{base: scheme + "://" + net.JoinHostPort(host, port), http: &http.Client{Transport: transport}, tokenFile: server.TokenFile}, nil
}

// errNotRunning says that no informd answers at the address of the admin server.
var errNotRunning = errors.New("start it with informd run and this config, or name another address with --server")

func notRunning(err error) error {
	return fmt.Errorf("no informd answers: %w (%w)", err, errNotRunning)
}

// do sends a request and hands the body of a good answer to read.
func (c client) do(ctx context.Context, method, path string, query url.Values, read func(io.Reader) error) (err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	if c.tokenFile != "" && path != statusPath {
		token, err := admin.ReadToken(c.tokenFile)
		if err != nil {
			return err
		}
		r.Header.Set(admin.Authorization(token))
	}
	answer, err := c.http.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // without a query that no user knows
			if err = failed.Err; !c.socket {
				err = fmt.Errorf("%s: %w", c.base, err)
			}
		}
		if c.closed != nil {
			err = fmt.Errorf("%w; %w", c.closed, err)
		}
		return notRunning(err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		const most = 4096
		text, err := io.ReadAll(io.LimitReader(answer.Body, most))
		refused := errors.New(refusal(answer.Status, string(text)))
		if answer.StatusCode == http.StatusForbidden && c.closed != nil {
			refused = fmt.Errorf("%w\nadmin.socket: %w", refused, c.closed)
		}
		return errors.Join(refused, err)
	}
	return read(answer.Body)
}

// refusal is what an answer says that is not a good one, fit for a terminal: names
// in it come from the cluster, and it may be another server that answers.
func refusal(status, text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}
	return cmp.Or(strings.Join(lines, "\n"), status)
}

// post is do for an answer in JSON, which may take long.
func (c client) post(ctx context.Context, path string, query url.Values, into any) error {
	return c.do(ctx, http.MethodPost, path, query, func(body io.Reader) error { return json.NewDecoder(body).Decode(into) })
}
