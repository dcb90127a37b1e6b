// Command bench measures informd against client-go's dynamic informer and against a bare
// reader of the same stream. It compares the results with the targets of the project.
// `make bench` runs it.
//
// Every client is a process with GOMAXPROCS=1, pinned to the last CPU; the servers have the others. For
// the idle row there is no CPU limit, as in a Pod without one. CPU time is the kernel's clock of the process, all threads. The last column has that of the source: if it is
// higher than the client's, the client was not at saturation and pays for wake-ups.
//
// A phase ends when the client has used less than 1 % of a core for 250 ms. A run with missing events fails.
// A twentieth as many unmeasured updates precede the measured ones. Clients alternate, in another order each
// round, and ratios are between runs of the same round. A row has the median of the rounds.
//
// What some rows mean:
//
//   - RSS, 100k Pods: after the list and 100,000 updates; for the baseline, five times the memory with 20,000
//     Pods, because it grows linearly.
//   - sinks: one informd after the other, each with another sink and 20,000 updates.
//   - PostgreSQL: a server that waits for the disk gets the first list of an informd; psql dumps both tables,
//     truncates them and copies the same rows back in one transaction. CPU of the server is that of all its processes.
//   - p99 from server write to sink: from the rendering of the event in the server to the line on informd's
//     standard output; 20,000 events at 1,000/s.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve":
			exit(serve(os.Args[2:]))
			return
		case "acknowledge":
			exit(acknowledge(os.Stdin, os.Stdout))
			return
		case "profile":
			exit(profile(os.Args[2:]))
			return
		}
	}
	b := &bench{root: ".."}
	flag.StringVar(&b.informd, "informd", "", "the informd `binary` to measure (default: a new build)")
	flag.BoolVar(&b.quick, "quick", false, "test the harness with small and short runs")
	flag.StringVar(&b.only, "run", "", "run only the cases whose name matches this regular expression")
	flag.StringVar(&b.json, "json", "", "`file` for the results")
	flag.StringVar(&b.quoted, "figures", "", "`file` of the figures that the docs quote; needs a run of all cases")
	flag.IntVar(&b.rounds, "rounds", 0, "rounds of each comparison (default: 0, the number of the case)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(b.run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the benchmarks.
type bench struct {
	// root is the product's directory; the others are programs.
	root                           string
	informd, floor, baseline, self string
	quick                          bool
	only, json, quoted             string
	rounds                         int

	began time.Time
	dir   string // of everything that is written
	// clientCPUs are for the client under measurement, where it has one core;
	// serverCPUs are for the servers then.
	clientCPUs, serverCPUs []int

	runs []run
	rows []row
	// latencies are p50 and p99 of each run, in milliseconds.
	latencies  map[kind][][2]float64
	rateRuns   []rateRun
	pairRuns   []pairRun
	idleShares map[idleCase][]float64 // percent of one core
	restarts   []restartRun
	backfills  []backfillRun
}

// say tells what is going on, apart from the results on standard output.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0fs "+format+"\n", append([]any{time.Since(b.began).Seconds()}, args...)...)
}

func (b *bench) run(ctx context.Context) (err error) {
	b.began = time.Now()
	if b.dir, err = os.MkdirTemp("", "informd-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.build(ctx); err != nil {
		return err
	}
	if err := b.pinning(); err != nil {
		return err
	}
	failed := b.cases(ctx)
	b.judge()
	return errors.Join(failed, b.report(ctx, os.Stdout))
}

// pinning keeps the last CPU that there is for the client under measurement.
func (b *bench) pinning() error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("find out which CPUs there are: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if last := len(cpus) - 1; last > 0 {
		b.serverCPUs, b.clientCPUs = cpus[:last], cpus[last:]
	}
	return nil
}

// build makes the programs that are compared, with the flags of a release.
func (b *bench) build(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.self, b.floor, b.baseline = self, filepath.Join(b.dir, "floor"), filepath.Join(b.dir, "baseline")
	for _, program := range []struct{ path, module, pkg string }{{b.floor, "test", "./bench/floor"}, {b.baseline, "test", "./bench/baseline"}} {
		if err := b.compile(ctx, program.path, program.module, program.pkg); err != nil {
			return err
		}
	}
	if b.informd == "" {
		b.informd = filepath.Join(b.dir, "informd")
		return b.compile(ctx, b.informd, ".", "./cmd/informd")
	}
	return nil
}

// compile builds a package of the module in a directory below root.
func (b *bench) compile(ctx context.Context, path, module, pkg string, flags ...string) error {
	b.say("building %s", pkg)
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-C", filepath.Join(b.root, module), "-trimpath", "-ldflags", "-s -w"}, flags...), "-o", path, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
