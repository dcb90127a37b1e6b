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
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.Bool(onceFlag, false, "deliver the snapshot of every resource, then end; exit code 1 if one could not be read")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			c, err := config.Load(config.Source{Flags: flags, Drivers: drivers.All()})
			if err != nil {
				return err
			}
			once, err := flags.GetBool(onceFlag)
			if err != nil {
				return usageError{err.Error()}
			}
			if once && !flags.Changed("admin-listen") {
				c.Admin.Listen = "" // nobody asks; and the daemon may be running beside it
			}
			if once {
				config.ForgetJournal(c) // it is the daemon's, which may be running
			}
			return runDaemon(ctx, io, c, once)
		},
	}
}

// gcPercent trades CPU for memory: little of what informd allocates lives long, and
// the collector's usual 100 would let it take twice as much.
const gcPercent = 50

// runDaemon runs until the first SIGTERM or interrupt, then drains; the second
// one ends it at once.
func runDaemon(ctx context.Context, io streams, c *config.Config, once bool) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	now, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	if len(c.Sinks) > 1 {
		// A broken pipe behind one sink must not end the others; that sink reports
		// the error of its write. With one sink, "informd | head" just ends.
		signal.Ignore(syscall.SIGPIPE)
	}
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
	d, err := daemon.New(daemon.Options{Config: c, Version: version, Stdout: io.out, Stderr: io.err})
	if err != nil {
		return err
	}
	if once {
		return d.RunOnce(ctx, now)
	}
	return d.Run(ctx, now)
}
