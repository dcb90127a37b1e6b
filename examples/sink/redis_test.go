package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/informer/informertest"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// server understands XADD in a transaction as Redis does.
type server struct {
	address string

	mu      sync.Mutex
	records []sinktest.Record
	room    int           // events that it still takes, negative: all
	healed  chan struct{} // closed: it answers
}

func start(t *testing.T) *server {
	t.Helper()
	s := &server{room: -1, healed: make(chan struct{})}
	close(s.healed)
	s.address = sinktest.Listen(t, s.serve)
	return s
}

func (s *server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	var queue []string
	refused := false
	for {
		words, err := command(in)
		var answer string
		switch {
		case err != nil:
			return
		case len(words) == 1 && words[0] == "MULTI":
			queue, refused, answer = nil, false, "+OK\r\n"
		case len(words) == 7 && words[0] == "XADD":
			if answer = "+QUEUED\r\n"; !s.takes(len(queue)) {
				refused, answer = true, "-OOM command not allowed when used memory > 'maxmemory'\r\n"
			}
			queue = append(queue, words[6])
		case refused:
			answer = "-EXECABORT Transaction discarded because of previous errors.\r\n"
		default:
			answer = s.add(queue)
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// command reads a list of texts, or one alone on its line.
func command(in *bufio.Reader) (words []string, err error) {
	if first, err := in.Peek(1); err == nil && first[0] != '*' {
		line, err := in.ReadString('\n')
		return []string{strings.TrimSpace(line)}, err
	}
	n, err := length(in, "*")
	for range n {
		size, err := length(in, "$")
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, err
}

func length(in *bufio.Reader, kind string) (int, error) {
	line, err := in.ReadString('\n')
	number, ok := strings.CutPrefix(strings.TrimSpace(line), kind)
	if err != nil || !ok {
		return 0, errors.Join(err, errors.New("no length"))
	}
	return strconv.Atoi(number)
}

// takes waits until the server is healed, and says whether it has room for one more than queued events.
func (s *server) takes(queued int) bool {
	s.mu.Lock()
	healed := s.healed
	s.mu.Unlock()
	<-healed
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room < 0 || queued < s.room
}

// add keeps the events of a transaction, and returns the answer.
func (s *server) add(queue []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := fmt.Sprintf("*%d\r\n", len(queue))
	for _, text := range queue {
		record, err := sinktest.FromJSON([]byte(text))
		if err != nil {
			return "-ERR " + strconv.Quote(err.Error()) + "\r\n"
		}
		s.records = append(s.records, record)
		id := fmt.Sprintf("1700000000000-%d", len(s.records))
		answer += fmt.Sprintf("$%d\r\n%s\r\n", len(id), id)
	}
	s.room = max(s.room-len(queue), min(s.room, 0))
	return answer
}

func (s *server) set(room int, healed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room, s.healed = room, healed
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Target{
		Lanes: 1,
		Setup: func(t *testing.T) *sinktest.Destination {
			t.Helper()
			s := start(t)
			healed := s.healed
			return &sinktest.Destination{
				Open: func(t *testing.T) sink.Sink {
					t.Helper()
					opened, err := (&options{Address: s.address, Stream: "k8s"}).Open(t.Context(), sinktest.Env(t))
					if err != nil {
						t.Fatal(err)
					}
					return opened
				},
				Received: func(*testing.T) []sinktest.Record {
					s.mu.Lock()
					defer s.mu.Unlock()
					return append([]sinktest.Record(nil), s.records...)
				},
				Break: func(_ *testing.T, after int) { s.set(after, healed) },
				Stall: func(*testing.T) {
					healed = make(chan struct{})
					s.set(-1, healed)
				},
				Heal: func(*testing.T) {
					if s.room < 0 {
						close(healed)
					}
					s.set(-1, healed)
				},
			}
		},
		IgnoreGoroutines: []goleak.Option{goleak.IgnoreAnyFunction("github.com/informd/informd/examples/sink.(*server).serve")},
	})
}

// program runs the program, and returns what it prints and its exit code.
func program(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "RUN_MAIN=1")
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// config writes a config, and a kubeconfig for an API server.
func config(t *testing.T, server, keys string) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "config.yaml")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	for file, text := range map[string]string{
		kubeconfig: "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: '" + server + "'}}]\n",
		path:       "cluster: test\nkubernetes: {kubeconfig: " + kubeconfig + "}\nresources: [configmaps]\nsinks: [ {name: out, type: redis, " + keys + "}]\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestProgramDelivers runs the program against an API server with one ConfigMap.
func TestProgramDelivers(t *testing.T) {
	cluster := informertest.New()
	cluster.Put(`{"kind":"Namespace","metadata":{"name":"kube-system"}}`)
	cluster.Put(`{"kind":"ConfigMap","metadata":{"namespace":"shop","name":"prices"},"data":{"a":"b"}}`)
	api := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: cluster})
	defer api.Close()
	s := start(t)
	path := config(t, api.URL, "stream: k8s, address: '"+s.address+"'")
	if text, code := program(t, "run", "--once", "-c", path); code != 0 {
		t.Fatalf("exit code %d: %s", code, text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if r.Attributes["op"] == "snapshot" && r.Attributes["name"] == "prices" {
			return
		}
	}
	t.Errorf("the stream has %v", s.records)
}
