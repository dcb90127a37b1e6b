package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// docsPreamble is what bash has before each block. A command that runs until Ctrl-C is ended as soon as it has
// printed something; it must end well then.
const docsPreamble = `set -meuo pipefail
informd() {
  case $1 in
  demo|run|tail)
    : > output
    command informd "$@" > output &
    until [ -s output ]; do kill -0 $! || { wait $!; return; }; sleep 0.05; done
    kill -INT $!
    wait $! ;;
  *) command informd "$@" ;;
  esac
}
`

// docsDaemonConfig has the sinks that the pages name. It has the path of a file and the address of an endpoint.
const docsDaemonConfig = `cluster: demo
resources: [pods, deployments.apps, configmaps]
sinks:
  - {name: bus, type: file, path: %q}
  - {name: hook, type: webhook, url: %q, match: [{resource: pods, ops: [snapshot]}]}
`

// TestDocsRun runs the blocks of sh of the pages that people follow, against the simulated cluster of "informd
// demo". A block that needs something else, such as Docker or a destination, is marked as an illustration.
func TestDocsRun(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	s := newShop()
	server, closeServer, err := serveCluster(ctx, s.Cluster)
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx, func() {})
	}()
	t.Cleanup(func() { end(); <-ended; closeServer() })
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	write(t, kubeconfig, fmt.Sprintf(demoKubeconfig, server))
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Setenv("GORACE", promptExit)
	withDaemon := startDocsDaemon(t, dir)

	pages := docsPages(t)
	ran := 0
	for _, name := range []string{"README.md", "docs/getting-started.md", "docs/recipes.md", "docs/operating.md"} {
		alone := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		must(t, os.Mkdir(alone, 0o700))
		for _, block := range docsBlocks(pages[name]) {
			switch {
			case block.language == "yaml" && strings.Contains(block.text, "cluster:"):
				write(t, filepath.Join(alone, "config.yaml"), block.text)
			case block.language != "sh":
			case docsNeedsDaemon.MatchString(block.text):
				ran++
				docsBash(t, name, withDaemon, block.text)
			default:
				ran++
				docsBash(t, name, alone, block.text)
			}
		}
	}
	for _, code := range regexp.MustCompile("`(informd [a-z][^`\n]*)`").FindAllStringSubmatch(docsText(pages["docs/runbooks.md"]), -1) {
		ran++
		docsBash(t, "docs/runbooks.md", withDaemon, strings.NewReplacer("<resource>", "deployments.apps", "<name>", "bus").Replace(code[1]))
	}
	if ran < 20 {
		t.Errorf("ran %d blocks only", ran)
	}
}

// docsNeedsDaemon are the commands that ask a running informd.
var docsNeedsDaemon = regexp.MustCompile(`(?m)^informd (status|tail|history|deadletters|rewind|resnapshot|gaps|verify)\b`)

func docsBash(t *testing.T, page, dir, script string) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	cmd := exec.CommandContext(ctx, "bash", "-c", docsPreamble+script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "INFORMD_ADMIN_LISTEN="+docsAddress(t)) // 8080 may be somebody's
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v of\n%s\n%s", page, err, script, out)
	}
}

func docsAddress(t *testing.T) string {
	t.Helper()
	address, err := freeAddress()
	must(t, err)
	return address
}

// startDocsDaemon runs an informd until the end of the test, and returns the directory of its config. When it
// returns, the sinks have what the cluster had at the start, and the endpoint has refused some of it.
func startDocsDaemon(t *testing.T, dir string) string {
	t.Helper()
	var refused atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if refused.Add(1) <= 2 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	}))
	t.Cleanup(endpoint.Close)
	dir = filepath.Join(dir, "running")
	must(t, os.Mkdir(dir, 0o700))
	config := fmt.Sprintf(docsDaemonConfig, filepath.Join(dir, "bus.ndjson"), endpoint.URL)
	write(t, filepath.Join(dir, "config.yaml"), config+fmt.Sprintf("journal: {dir: %q}\n", filepath.Join(dir, "journal")))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "informd", "run")
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), "INFORMD_ADMIN_LISTEN="+docsAddress(t)), t.Output()
	must(t, cmd.Start())
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
			t.Errorf("informd run: %v", err)
		}
	})
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	for {
		letters := exec.CommandContext(t.Context(), "informd", "deadletters", "list", "-o", "json")
		letters.Dir = dir
		out, err := letters.CombinedOutput()
		if err == nil && bytes.Count(out, []byte("\n")) == 2 {
			return dir
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("informd has no dead letters: %v: %s", err, out)
		}
	}
}
