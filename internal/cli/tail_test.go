package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/stdout"
)

func modified(rv uint64, object string) []byte {
	e := event.Event{
		ID: "u:1", Op: event.Modified, Cluster: "c", Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespace: "shop", Name: "web",
		UID: "u", ResourceVersion: rv, Data: []byte(`{"object":` + object + `}`),
	}
	return e.AppendJSON(nil)
}

func TestTailText(t *testing.T) {
	var out bytes.Buffer
	lines, err := (&stdout.Config{Format: stdout.Pretty}).Open(t.Context(), sink.Env{Stdout: &out})
	must(t, err)
	show := tailText(t.Context(), lines)
	for _, text := range [][]byte{modified(1, `{"status":{"phase":"a\u001b[31m\u202e"}}`), modified(2, `{}`)} {
		must(t, show(text))
	}
	if err := show([]byte("{")); err == nil || !strings.Contains(err.Error(), "read the tail") {
		t.Errorf("garbage: %v", err)
	}
	must(t, lines.Close(t.Context()))
	if shown := strings.Split(out.String(), "\n"); len(shown) != 3 || !strings.Contains(shown[0], "modified  deployments.apps  shop/web") || strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("the text is %q", out.String())
	}
}

// stuck is an output that nobody reads.
type stuck struct{ writing, free chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	close(s.writing)
	<-s.free
	return len(p), nil
}

// TestTailEndsWithoutAReader: an interrupt ends a tail whose output is full.
func TestTailEndsWithoutAReader(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "data: %s\n\n", modified(1, `{}`))
		_ = http.NewResponseController(w).Flush() // it can
		<-r.Context().Done()
	}))
	defer server.Close()
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, "resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\n")
	for _, format := range []string{"text", "json"} {
		out, errs := stuck{make(chan struct{}), make(chan struct{})}, bytes.Buffer{}
		defer close(out.free)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, []string{"tail", "-o", format, "-c", config, "--server", server.URL}, out, &errs)
		}()
		<-out.writing
		cancel()
		select {
		case code := <-ended:
			if code != exitOK {
				t.Errorf("%s: exit %d: %s", format, code, errs.String())
			}
		case <-time.After(10 * time.Second):
			t.Errorf("the tail as %s does not end", format)
		}
	}
}

func TestFollow(t *testing.T) {
	for name, test := range map[string]struct {
		body, shown, noted, err string
	}{
		"events":         {":\n\ndata: {\"n\":1}\n\n:\n\ndata: {\"n\":2}\n\n", `{"n":1}{"n":2}`, "", errEnded.Error()},
		"conditions":     {"event: failed\ndata: {\"events\":3}\n\ndata: 1\n\n", "1", "the condition failed for 3 events so far; they are not shown", errEnded.Error()},
		"too fast":       {"event: skipped\ndata: {\"events\":1}\n\n", "", "not shown so far, because they came too fast: 1 event; narrow the filter", errEnded.Error()},
		"an unknown one": {"event: other\ndata: {}\n\ndata: 1\n\n", "1", "", errEnded.Error()},
		"garbage":        {"event: failed\ndata: {\n\n", "", "", "read the tail"},
		"cut":            {"data: {\"n\":1}", "", "", errEnded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			var shown, noted string
			err := followTail(strings.NewReader(test.body), func(text []byte) error { shown += string(text); return nil }, func(note string) { noted += note })
			if shown != test.shown || noted != test.noted || err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("shown %q, noted %q, %v", shown, noted, err)
			}
		})
	}
	full := errors.New("the disk is full")
	if err := followTail(strings.NewReader("data: 1\n\n"), func([]byte) error { return full }, nil); !errors.Is(err, full) {
		t.Errorf("an error of the output: %v", err)
	}
}
