package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/informd/informd/test/bench/replay"
)

// source says what a replay server serves.
type source struct {
	objects int
	stamp   bool
}

// server is a replay server in a process of its own.
type server struct {
	*child
	source

	dir, control string
}

func (b *bench) startServer(ctx context.Context, s source) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, "replay-")
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "-dir", dir, "-objects", strconv.Itoa(s.objects)}
	if s.stamp {
		args = append(args, "-stamp")
	}
	c, err := start(launch{path: b.self, args: args, log: filepath.Join(dir, "log"), cpus: b.serverCPUs})
	if err != nil {
		return nil, err
	}
	serving := &server{child: c, source: s, dir: dir}
	return serving, eventually(ctx, "replay server serves", 20*time.Millisecond, time.Minute, func() (bool, error) {
		address, err := os.ReadFile(filepath.Join(dir, controlFile))
		serving.control = string(address)
		return err == nil, err
	})
}

func (s *server) kubeconfig() string { return filepath.Join(s.dir, kubeconfigFile) }

// tell sends the server a command.
func (s *server) tell(ctx context.Context, command string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.control+command, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("replay server: %s: %s", command, response.Status)
	}
	return nil
}

// play lets events happen, all at once if rate is 0.
func (s *server) play(ctx context.Context, events int, rate float64) error {
	return s.tell(ctx, fmt.Sprintf("/play?events=%d&rate=%g", events, rate))
}

func (s *server) stats(ctx context.Context) (replay.Stats, error) {
	var stats replay.Stats
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.control+"/stats", http.NoBody)
	if err != nil {
		return stats, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return stats, err
	}
	defer response.Body.Close()
	return stats, json.NewDecoder(response.Body).Decode(&stats)
}
