package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/internal/daemon"
)

func runCommand(std streams) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use: "run", Short: "watch and deliver until SIGTERM", GroupID: runGroup,
		Long: `informd run watches the resources of the config and delivers every change to its sinks.
On the first SIGTERM or Ctrl-C, informd stops the watches and delivers the events in the
journal, for up to 15 seconds. On a second one, informd exits at once. informd reloads the
config when the file changes, on SIGHUP, and on 'informd reload'. A config with errors
changes nothing.

With --once, informd uses a memory journal and no admin server. It can run beside an
informd with the same config, but for file and postgres sinks: their files and tables belong
to one informd.`,
		Example: `informd run -c config.yaml
informd run --once -c config.yaml        # delivers the objects that exist, then exits`,
		Annotations: exitCodes("0 stopped by a signal, 1 failure, 2 wrong usage or config"),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := cmd.Flags()
			source := configfile.Source{Flags: flags, Drivers: std.program.Drivers}
			c, err := configfile.Load(source)
			if err != nil {
				return err
			}
			source.Path = c.Path // a reload is of the same file
			load := func() (*config.Config, error) { return configfile.Load(source) }
			if once && !flags.Changed("admin-listen") {
				c.Admin.Listen = "" // the daemon may be running beside it
			}
			if once {
				c.Admin.Socket = ""     // the daemon's
				config.ForgetJournal(c) // it is the daemon's, which may be running
				load = nil
			}
			return runDaemon(cmd.Context(), daemon.Options{Config: c, Load: load, Version: std.program.Version, Stdout: std.out, Stderr: std.err}, once)
		},
	}
	configFlags(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "deliver a snapshot of every resource, then exit; exit code 1 if a resource could not be read")
	return cmd
}

// runDaemon runs until the first SIGTERM or interrupt, then drains; the second
// one ends it at once. SIGHUP reloads the config.
func runDaemon(ctx context.Context, o daemon.Options, once bool) error {
	limitGarbage()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	now, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	ignoreBrokenPipes(o.Config)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	go obey(now, signals, stop, abandon)
	if load := o.Load; load != nil {
		o.Load = func() (*config.Config, error) {
			c, err := load()
			if err == nil {
				ignoreBrokenPipes(c)
			}
			return c, err
		}
	}
	d, err := daemon.New(o)
	if err != nil {
		return err
	}
	if once {
		return d.RunOnce(ctx, now)
	}
	return runOn(ctx, now, d, o)
}

// obey ends the program gently at the first signal, and at once at the second.
func obey(now context.Context, signals <-chan os.Signal, stop context.CancelFunc, abandon context.CancelCauseFunc) {
	select {
	case <-signals:
		stop()
	case <-now.Done():
		return
	}
	select {
	case s := <-signals:
		abandon(fmt.Errorf("ended by a second signal (%v), without draining", s))
	case <-now.Done():
	}
}

// runOn runs a daemon, and another one each time that it has lost the lease of replicas, or that the kubeconfig has
// changed. A daemon reloads its config on SIGHUP.
func runOn(ctx, now context.Context, d *daemon.Daemon, o daemon.Options) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		ended := make(chan struct{})
		go reloadOn(now, hangups, ended, d)
		err := d.Run(ctx, now)
		close(ended)
		if !errors.Is(err, daemon.ErrLeaseLost) && !errors.Is(err, daemon.ErrKubeconfigChanged) {
			return err
		}
		if ctx.Err() != nil { // a signal has come meanwhile, and everything has ended
			return nil
		}
		o.Config = d.Config() // the next one reads the file if that has changed
		if d, err = daemon.New(o); err != nil {
			return err
		}
	}
}

// reloadOn reloads the config of a daemon on signals, until that has ended.
func reloadOn(now context.Context, hangups <-chan os.Signal, ended <-chan struct{}, d *daemon.Daemon) {
	for {
		select {
		case <-hangups:
			_ = d.Reload(now) // which has logged why it failed
		case <-ended:
			return
		}
	}
}

// ignoreBrokenPipes: a broken pipe behind one sink must not end the others; that
// sink reports the error of its write. With one sink, "informd | head" just ends.
func ignoreBrokenPipes(c *config.Config) {
	if len(c.Sinks) > 1 {
		signal.Ignore(syscall.SIGPIPE)
	}
}
