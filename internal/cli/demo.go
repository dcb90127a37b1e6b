package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/internal/daemon"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/stdout"
)

// demoLimit bounds the memory of a demo that runs on unnoticed: the simulated cluster keeps its history.
const demoLimit = 8 * time.Hour

func demoCommand(std streams) *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "watch a simulated cluster, to see what informd does", GroupID: setUpGroup,
		Long: `informd demo simulates a cluster, in which a shop is released again and again, and watches
it as 'informd run' would. It needs no Kubernetes, no destination and no config, and only
listens on loopback. It prints the events, for people on a terminal, else as JSON. On
standard error it prints the address of its page, and commands for another terminal.

The config and the journal are in a new directory below $TMPDIR (default: /tmp). The demo
ends on Ctrl-C, when its output is closed, or after 8 hours, and removes the directory.`,
		Example: `informd demo
informd demo | jq .        # the events as sinks get them`,
		Annotations: exitCodes("0 stopped by a signal, 1 failure, 2 wrong usage"),
		Args:        noArguments,
		RunE:        func(cmd *cobra.Command, _ []string) error { return std.demo(cmd.Context()) },
	}
}

// demo runs the cluster, the daemon and the hints in one directory, which it removes.
func (std streams) demo(ctx context.Context) (err error) {
	// Beside those of a daemon, that of a closed terminal ends it, because it has a directory to remove.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// Each connection without a reader causes this one. Of an output without a reader, the error tells.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "informd-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := newShop()
	server, closeServer, err := serveCluster(ctx, s.Cluster)
	if err != nil {
		return err
	}
	defer closeServer()
	out, format := io.Writer(unbroken{std.out, cancel}), sink.FormatCloudEvents
	if isTerminal(std.out) {
		out, format = std.out, stdout.Pretty
	}
	hints, err := writeDemo(dir, server, format)
	if err != nil {
		return err
	}
	load := func() (*config.Config, error) {
		path := filepath.Join(dir, "config.yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		// Without INFORMD_* variables, which may be those of another informd.
		return configfile.Parse(path, text, std.program.Drivers)
	}
	c, err := load()
	if err != nil {
		return err
	}
	fmt.Fprint(std.err, hints)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	working.Go(func() { s.run(ctx, func() { fmt.Fprint(std.err, hints) }) })
	o := daemon.Options{Config: c, Load: load, Version: std.program.Version, Stdout: out, Stderr: std.err}
	return runDaemon(ctx, o, false)
}

// unbroken is an output whose reader may leave. The demo then ends, and need not wait to deliver the rest.
type unbroken struct {
	out io.Writer
	end func()
}

func (u unbroken) Write(text []byte) (int, error) {
	if n, err := u.out.Write(text); !errors.Is(err, syscall.EPIPE) {
		return n, err
	}
	u.end()
	return len(text), nil
}

// serveCluster serves a simulated cluster to all on this machine until it is closed.
func serveCluster(ctx context.Context, cluster http.RoundTripper) (url string, closeServer func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // ended watches are no errors
	server := &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite: func(*httputil.ProxyRequest) {}, Transport: cluster, FlushInterval: -1, ErrorLog: quiet,
		},
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: time.Minute, ErrorLog: quiet,
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // until it is closed
	return "http://" + l.Addr().String(), func() {
		end()                                     // watches, also those of kubectl
		_ = server.Shutdown(context.Background()) // its only error is that of the context
		serving.Wait()
	}, nil
}

// demoKubeconfig has the address of the API server.
const demoKubeconfig = `apiVersion: v1
kind: Config
current-context: demo
contexts: [{name: demo, context: {cluster: demo, namespace: shop}}]
clusters: [{name: demo, cluster: {server: %q}}]
`

// demoConfig has the paths of the kubeconfig, the journal and the token, the address of the admin server, and
// the format of the events.
const demoConfig = `cluster: demo
kubernetes: {kubeconfig: %[1]q}
resources:
  - pods
  - {resource: deployments.apps, changes: changed}
  - {resource: configmaps, changes: changed}
  - {resource: secrets, changes: changed}    # their values are always hashed
  - sensors.demo.informd.dev                 # a custom resource
sinks:
  - {name: screen, type: stdout, format: %[5]s}
journal: {dir: %[2]q}
admin: {listen: %[4]q, tokenFile: %[3]q}
log: {level: warn}
`

// demoHints has the name of the program, the path of the config, and the address and the token of the admin
// server.
const demoHints = `
The cluster is simulated. The rest is informd as it runs elsewhere; Ctrl-C ends both.
In a browser:  http://%[3]s/#token=%[4]s
In another terminal:
    %[1]s status -c %[2]s
    %[1]s history deployments.apps/shop/web -c %[2]s
    %[1]s get secrets/shop/database -c %[2]s

`

// writeDemo writes the config of the daemon and what it names. It returns the hints for people.
func writeDemo(dir, server string, format sink.Format) (hints string, err error) {
	file := func(name string) string { return filepath.Join(dir, name) }
	listen, err := freeAddress()
	if err != nil {
		return "", err
	}
	token := rand.Text()
	for name, text := range map[string]string{
		"kubeconfig":  fmt.Sprintf(demoKubeconfig, server),
		"token":       token,
		"config.yaml": fmt.Sprintf(demoConfig, file("kubeconfig"), file("journal"), file("token"), listen, format),
	} {
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(demoHints, os.Args[0], file("config.yaml"), listen, token), nil
}

// freeAddress returns a loopback address that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed on the next line
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
