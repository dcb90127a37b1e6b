package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// profileServer is a file that is compiled into a copy of informd, which has no
// profiler of its own: net/http/pprof at $INFORMD_PPROF.
//
//go:embed profile_overlay.txt
var profileServer string

// profile shows where informd's CPU time goes, at saturation or at a rate, and what its heap
// holds.
func profile(args []string) error {
	flags := flag.NewFlagSet("profile", flag.ContinueOnError)
	var s source
	flags.IntVar(&s.objects, "objects", 20_000, "how many there are")
	sink := flags.String("sink", string(natsSink), strings.Join(sinkNames(), ", "))
	journal := flags.String("journal", "log", "log or memory")
	seconds := flags.Int("seconds", 10, "how long the CPU profile is")
	rate := flags.Float64("rate", 0, "events per second, on all cores; 0: saturation, on one core")
	out := flags.String("out", ".", "`directory` to write cpu.pprof, heap.pprof and allocs.pprof to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	k, ok := map[string]kind{"log": informd, "memory": informdMemory}[*journal]
	if !ok {
		return fmt.Errorf("-journal %s: there are log and memory", *journal)
	}
	ctx := context.Background()
	b := &bench{root: "..", began: time.Now()}
	var err error
	if b.dir, err = os.MkdirTemp("", "informd-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir) //nolint:errcheck // a temp dir
	if err := b.pinning(); err != nil {
		return err
	}
	if err := b.buildProfiled(ctx); err != nil {
		return err
	}
	return b.takeProfiles(ctx, k, s, sinkKind(*sink), *seconds, *rate, *out)
}

// buildProfiled builds informd with the profiler in it, without touching its source.
func (b *bench) buildProfiled(ctx context.Context) error {
	root, err := filepath.Abs(b.root)
	if err != nil {
		return err
	}
	added, overlay := filepath.Join(b.dir, "profile.go"), filepath.Join(b.dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "cmd/informd/profile.go"): added}})
	if err := errors.Join(err, os.WriteFile(added, []byte(profileServer), 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return err
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	b.informd = filepath.Join(b.dir, "informd")
	return b.compile(ctx, b.informd, ".", "./cmd/informd", "-overlay", overlay)
}

func (b *bench) takeProfiles(ctx context.Context, k kind, s source, into sinkKind, seconds int, rate float64, out string) (err error) {
	server, err := b.startServer(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	sink, closeSink, err := b.openSink(ctx, into)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeSink()) }()
	pprof := filepath.Join(b.dir, "pprof")
	// More than it can take in the time: the profile is of saturation alone.
	cores, events := 1, seconds*500_000
	if rate > 0 {
		cores, events = 0, int(float64(seconds+5)*rate)
	}
	c, err := b.startClient(k, setup{server: server, sink: sink, cores: cores, env: []string{"INFORMD_PPROF=" + pprof}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	if _, _, err = c.settle(ctx, border{}, int64(s.objects), 0, s.objects); err != nil {
		return err
	}
	if err := server.play(ctx, events, rate); err != nil {
		return err
	}
	address, err := os.ReadFile(pprof)
	if err != nil {
		return err
	}
	for _, p := range []struct{ name, query string }{
		{"cpu", fmt.Sprintf("profile?seconds=%d", seconds)}, {"heap", "heap?gc=1"}, {"allocs", "allocs"},
	} {
		path := filepath.Join(out, p.name+".pprof")
		if err := download(ctx, "http://"+string(address)+"/debug/pprof/"+p.query, path); err != nil {
			return err
		}
		show := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=25", path)
		show.Stdout, show.Stderr = os.Stdout, os.Stderr
		if err := show.Run(); err != nil {
			return err
		}
	}
	return nil
}

func download(ctx context.Context, url, path string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, response.Body)
	return err
}
