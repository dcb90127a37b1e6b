package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/test/bench/corpus"
	"github.com/informd/informd/test/bench/replay"
)

// serve is the replay server as a process of its own, so that its CPU is not the
// runner's or a client's. In the directory it writes a kubeconfig and, once it
// serves, the address at which it is told what to do.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	objects := flags.Int("objects", 1000, "how many there are")
	stamp := flags.Bool("stamp", false, "put the time into what is sent")
	dir := flags.String("dir", ".", "where to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := corpus.Pods()
	if err != nil {
		return err
	}
	options := replay.Options{Corpus: c, Objects: *objects}
	if *stamp {
		options.Clock = clock
	}
	s, err := replay.New(options)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.WriteKubeconfig(filepath.Join(*dir, kubeconfigFile)); err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control := &http.Server{Handler: controlHandler(ctx, s), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = control.Close() })
	if err := writeWhole(filepath.Join(*dir, controlFile), listener.Addr().String()); err != nil {
		return err
	}
	_ = control.Serve(listener) // until ctx ends
	return s.Close()
}

const (
	kubeconfigFile = "kubeconfig"
	controlFile    = "control"
)

// clock is the machine's monotonic clock, the same for all processes, in nanoseconds.
func clock() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// writeWhole writes a file that is there with all of its content or not at all.
func writeWhole(path, content string) error {
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// controlHandler lets the runner say what is to happen. Events with a rate go on
// happening after the answer.
func controlHandler(ctx context.Context, s *replay.Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /play", func(w http.ResponseWriter, r *http.Request) {
		events, err := strconv.ParseUint(r.FormValue("events"), 10, 64)
		rate, rateErr := strconv.ParseFloat(r.FormValue("rate"), 64)
		if err != nil || rateErr != nil {
			http.Error(w, fmt.Sprint(err, rateErr), http.StatusBadRequest)
			return
		}
		go s.Play(ctx, events, rate)
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.Stats()) // the runner notices
	})
	return mux
}
