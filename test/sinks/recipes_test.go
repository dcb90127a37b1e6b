package sinks_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/exec"
	"github.com/informd/informd/pkg/sink/sinktest"
	server "github.com/informd/informd/test/postgres"
)

// example writes the only block of a language in a page of docs to a file.
func example(t *testing.T, name, language string) (path string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Clean("../../docs/" + name))
	must(t, err)
	blocks := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(blocks) != 1 {
		t.Fatalf("the page has %d blocks of %s", len(blocks), language)
	}
	path = filepath.Join(t.TempDir(), "handler")
	must(t, os.WriteFile(path, blocks[0][1], 0o600))
	return path
}

// handled has the example acknowledge the events, and returns what it has made of them.
func handled(t *testing.T, interpreter, script string, ack exec.Ack, variables map[string]string, events []event.Event) {
	t.Helper()
	c, _ := exec.Driver().New().(*exec.Config)
	c.Command, c.Ack, c.Env = []string{interpreter, script}, ack, map[string]sink.Secret{}
	for name, value := range variables {
		c.Env[name] = sink.NewSecret(value)
	}
	s, err := c.Open(t.Context(), sinktest.Env(t))
	if err != nil {
		t.Fatalf("%v (make interpreters installs it)", err)
	}
	if n, err := s.Write(t.Context(), events); err != nil {
		t.Errorf("%d of %d events were acknowledged: %v", n, len(events), err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// pod returns events about a Pod with an image.
func pod(name, image string, op event.Op) event.Event {
	e := sinktest.Events(2)[1]
	e.ID, e.Name, e.Op = "uid-"+name+":1", name, op
	e.Data = form.CloseData(append(form.OpenData(nil), `{"kind":"Pod","spec":{"containers":[{"image":"`+image+`"}]}}`...))
	return e
}

// TestExecExamples runs the programs of docs/sinks/exec.md.
func TestExecExamples(t *testing.T) {
	events := append(sinktest.AllOps(), pod("web", "nginx:1", event.Added), pod("db", "postgres:17", event.Deleted))
	t.Run("python", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "images")
		handled(t, "python3", example(t, "sinks/exec.md", "python"), exec.IDs, map[string]string{"OUT": out}, events)
		wantText(t, out, "web nginx:1\ndb postgres:17\n")
	})
	t.Run("sh", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "deleted")
		handled(t, "sh", example(t, "sinks/exec.md", "sh"), exec.Exit, map[string]string{"OUT": out}, events)
		var want strings.Builder
		for i := range events {
			if e := &events[i]; e.Op == event.Deleted {
				want.WriteString(form.Time(e.Time) + "\t" + e.Kind + "\t" + e.Namespace + "\t" + e.Name + "\n")
			}
		}
		wantText(t, out, want.String())
	})
	t.Run("node", func(t *testing.T) {
		var mu sync.Mutex
		var got, want []string
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			var posted struct{ Op, Name string }
			if json.Unmarshal(body, &posted) != nil || err != nil {
				w.WriteHeader(http.StatusBadRequest)
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, posted.Op+" "+posted.Name)
		}))
		defer api.Close()
		handled(t, "node", example(t, "sinks/exec.md", "js"), exec.IDs, map[string]string{"URL": api.URL}, events)
		for i := range events {
			want = append(want, string(events[i].Op)+" "+events[i].Name)
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what the API got (-want +got):\n%s", diff)
		}
	})
}

// TestExecWithoutItsScript: an interpreter that does not find its script, or a module of it, refuses no event.
func TestExecWithoutItsScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), "handler.py")
	must(t, os.WriteFile(script, []byte("import sys, a_module_that_is_missing\nsys.stdin.read()\n"), 0o600))
	for _, command := range [][]string{{"python3", "/nonexistent.py"}, {"python3", script}, {"node", "/nonexistent.js"}, {"sh", "/nonexistent.sh"}} {
		for _, ack := range []exec.Ack{exec.IDs, exec.Exit} {
			c, _ := exec.Driver().New().(*exec.Config)
			c.Command, c.Ack = command, ack
			s, err := c.Open(t.Context(), sinktest.Env(t))
			must(t, err)
			n, err := s.Write(t.Context(), sinktest.Events(3))
			if n != 0 || err == nil || sink.IsPermanent(err) || sink.IsUnknown(err) || !strings.Contains(err.Error(), "check command") {
				t.Errorf("%q with ack: %s: Write returned %d and %v, want 0 and an error that passes", command, ack, n, err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestPythonRecipe: the handler of docs/recipes.md posts the images of Deployments, and acknowledges every event.
func TestPythonRecipe(t *testing.T) {
	var mu sync.Mutex
	var got []string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprint(string(body), err))
	}))
	defer api.Close()
	web := pod("web", "", event.Added)
	web.Data = form.CloseData(append(form.OpenData(nil),
		`{"kind":"Deployment","spec":{"template":{"spec":{"containers":[{"image":"nginx:1"},{"image":"envoy:2"}]}}}}`...))
	unknown := pod("unknown", "", event.Deleted)
	unknown.Data = nil
	handled(t, "python3", example(t, "recipes.md", "python"), exec.IDs, map[string]string{"URL": api.URL}, []event.Event{web, unknown})
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{`{"name": "web", "images": ["nginx:1", "envoy:2"]}<nil>`}, got); diff != "" {
		t.Errorf("what the API got (-want +got):\n%s", diff)
	}
}

func wantText(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", filepath.Base(path), diff)
	}
}

// TestSQLRecipe runs the queries of docs/recipes.md.
func TestSQLRecipe(t *testing.T) {
	page, err := os.ReadFile("../../docs/recipes.md")
	must(t, err)
	block := regexp.MustCompile("(?ms)^```sql\n(.*?)^```$").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/recipes.md has no queries")
	}
	d := newDatabase(t, server.Start(t, server.Options{}), nil)
	before := d.object(event.Modified, "web", `{"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`)
	before.Time = time.Date(2026, 11, 20, 9, 45, 0, 0, time.UTC)
	before.Data = []byte(`{"fieldManager":{"manager":"kubectl"},"changed":["spec.containers[].image"],` + strings.TrimPrefix(string(before.Data), "{"))
	after := d.object(event.Modified, "db", `{"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`)
	after.Time = before.Time.Add(time.Hour)
	d.write(before, after)
	queries := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(block[1]), "informd.", "t.")), ";\n")
	if len(queries) != 3 {
		t.Fatalf("%d queries", len(queries))
	}
	d.want(queries[0], "test Pod 2")
	d.want(queries[1], "nginx:1 2 {shop}")
	d.want(strings.TrimSuffix(queries[2], ";"), `2026-11-20 09:45:00+00 modified Pod shop web kubectl ["spec.containers[].image"]`)
}
