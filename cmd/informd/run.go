package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/cmd/informd/internal/daemon"
	"github.com/informd/informd/pkg/sink/drivers"
)

const (
	runCommandName = "run"
	onceFlag       = "once"
)

func runCommand() command {
	return command{
		name: runCommandName, summary: "watch and deliver until SIGTERM (the default command)",
		long: `It watches the resources of the config and delivers every change to its sinks. The
first SIGTERM or Ctrl-C ends the watches and delivers what the journal holds, for up
to 15 seconds; a second one ends informd at once. When the config file changes, and
on SIGHUP, the config is read again; one with mistakes changes nothing.

With --once it uses a journal in memory and no admin server, so that it can be run
beside an informd with the same config.`,
		examples: `informd run -c config.yaml
informd -c config.yaml                   # the same
informd run --once -c config.yaml        # what exists now, and an end`,
		exits: "0 stopped as asked, 1 failure, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.Bool(onceFlag, false, "deliver the snapshot of every resource, then end; exit code 1 if one could not be read")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			source := config.Source{Flags: flags, Drivers: drivers.All()}
			c, err := config.Load(source)
			if err != nil {
				return err
			}
			source.Path = c.Path // a reload is of the same file
			load := func() (*config.Config, error) { return config.Load(source) }
			once, err := flags.GetBool(onceFlag)
			if err != nil {
				return misused("%v", err)
			}
			if once && !flags.Changed("admin-listen") {
				c.Admin.Listen = "" // nobody asks; and the daemon may be running beside it
			}
			if once {
				c.Admin.Socket = ""     // the daemon's
				config.ForgetJournal(c) // it is the daemon's, which may be running
				load = nil
			}
			return runDaemon(ctx, daemon.Options{Config: c, Load: load, Version: version, Stdout: io.out, Stderr: io.err}, once)
		},
	}
}

// These trade CPU for memory: little of what informd allocates lives long, and the
// collector's usual 100 would let it take twice as much. With a memory journal next to
// nothing is allocated, and what the journal has is no reason to collect later.
const (
	gcPercent       = 50
	gcPercentMemory = 30
)

// runDaemon runs until the first SIGTERM or interrupt, then drains; the second
// one ends it at once. SIGHUP reloads the config.
func runDaemon(ctx context.Context, o daemon.Options, once bool) error {
	if os.Getenv("GOGC") == "" {
		percent := gcPercent
		if o.Config.Journal.Type == config.JournalMemory {
			percent = gcPercentMemory
		}
		debug.SetGCPercent(percent)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	now, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	ignoreBrokenPipes(o.Config)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	go func() {
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
	}()
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
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go func() {
		for {
			select {
			case <-hangups:
				_ = d.Reload(now) // which has logged why it failed
			case <-now.Done():
				return
			}
		}
	}()
	return d.Run(ctx, now)
}

// ignoreBrokenPipes: a broken pipe behind one sink must not end the others; that
// sink reports the error of its write. With one sink, "informd | head" just ends.
func ignoreBrokenPipes(c *config.Config) {
	if len(c.Sinks) > 1 {
		signal.Ignore(syscall.SIGPIPE)
	}
}
