package dynwatch

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// checkpoints is a log that keeps checkpoints only.
type checkpoints struct {
	forgetful

	mu    sync.Mutex
	marks map[string][]byte
}

func (c *checkpoints) Mark(_ context.Context, target string, mark []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks[target] = mark
	return nil
}

func (c *checkpoints) Restore(_ context.Context, target string, _ func(event.Event)) (journal.Checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return journal.Checkpoint{Mark: c.marks[target]}, nil
}

// quietCache is an API server with a watch cache for all namespaces. Etcd tells it after some time that nothing has
// changed, for which consistent lists wait.
type quietCache struct {
	*quietServer

	takes time.Duration
}

func (s quietCache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") && path.Base(r.URL.Path) == "pods" {
		r.URL.Path = "/api/v1/pods"
	}
	if strings.Contains(r.URL.Query().Get("fieldSelector"), "informd-no-object") {
		select {
		case <-time.After(s.takes):
		case <-r.Context().Done():
			return
		}
	}
	s.quietServer.ServeHTTP(w, r)
}

// TestTargetsResumeTogether: targets whose resources do not change all watch again after one such wait.
func TestTargetsResumeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const targets, takes = 64, 100 * time.Millisecond
		api := quietCache{&quietServer{count: make(map[string]int)}, takes}
		log := &checkpoints{marks: make(map[string][]byte)}
		var namespaces []string
		for i := range targets {
			namespaces = append(namespaces, fmt.Sprint("namespace-", i))
		}
		run := func() *Manager {
			m := newOnPipes(t, api, log)
			if err := m.Apply([]Resource{{Resource: "pods", Namespaces: namespaces}}); err != nil {
				t.Fatal(err)
			}
			return m
		}
		first := run()
		<-time.After(time.Minute)
		first.Close()
		second := run()
		<-time.After(takes)
		synctest.Wait()
		live := 0
		for _, s := range second.Targets() {
			if s.State == Live {
				live++
			}
		}
		if live != targets {
			t.Errorf("%d of %d targets watch after %v", live, targets, takes)
		}
	})
}
