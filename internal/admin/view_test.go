package admin_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/pkg/event"
)

// opened is a tail over HTTP.
type opened struct {
	*bufio.Scanner
	t *testing.T
}

// openTail asks for a tail and waits until it has begun.
func openTail(t *testing.T, s *admin.Server, query url.Values) opened {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address()+"/tail?"+query.Encode(), http.NoBody)
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("GET /tail: %s", answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	if !lines.Scan() || lines.Text() != ":" {
		t.Fatalf("the tail begins with %q", lines.Text())
	}
	return opened{lines, t}
}

// message returns the next line with content.
func (o opened) message() string {
	o.t.Helper()
	for o.Scan() {
		if text := o.Text(); text != "" && text != ":" {
			return text
		}
	}
	o.t.Fatalf("the tail ends: %v", o.Err())
	return ""
}

func pod(n int, phase string) event.Event {
	return event.Event{
		ID: fmt.Sprintf("u:%d", n), Op: event.Modified, Cluster: "c", Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("p", n),
		UID: "u", ResourceVersion: uint64(n), Time: time.Unix(1, 0), Data: fmt.Appendf(nil, `{"object":{"status":{"phase":%q}}}`, phase),
	}
}

func TestTailShowsWhatIsWanted(t *testing.T) {
	asked, o := &operator{}, options()
	o.Operator, o.TokenFile = asked, tokenFile(t)
	s := start(t, o)
	all := openTail(t, s, nil)
	some := openTail(t, s, url.Values{"resource": {"pods"}, "namespace": {"shop"}, "condition": {"object.status.phase == 'Failed'"}})
	secret := event.Event{ID: "v:1", Op: event.Added, Cluster: "c", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "shop", Name: "d", UID: "v", ResourceVersion: 1, Data: []byte(`{"object":{}}`)}
	hostile := pod(2, "Running")
	hostile.Name = "a\u202eb\u001b[31m"
	bare := pod(4, "")
	bare.Data = []byte(`{"object":{}}`)
	asked.feed.Publish([]event.Event{secret, hostile, pod(3, "Failed"), bare})
	for _, want := range []string{`"id":"v:1"`, `"name":"a\u202eb\u001B[31m"`, `"id":"u:3"`, `"id":"u:4"`} {
		if got := all.message(); !strings.Contains(got, want) {
			t.Errorf("the tail of all shows %s, want %s", got, want)
		}
	}
	if got := some.message(); !strings.Contains(got, `"id":"u:3"`) {
		t.Errorf("the filtered tail shows %s", got)
	}
	if kind, what := some.message(), some.message(); kind != "event: failed" || what != `data: {"events":1}` {
		t.Errorf("of a failed condition the tail says %s %s", kind, what)
	}
}

// TestTailWithARate shows the newest events, and says how many it does not show.
func TestTailWithARate(t *testing.T) {
	asked, o := &operator{}, options()
	o.Operator, o.TokenFile = asked, tokenFile(t)
	tail := openTail(t, start(t, o), url.Values{"perSecond": {"2"}})
	asked.feed.Publish([]event.Event{pod(1, ""), pod(2, ""), pod(3, ""), pod(4, ""), pod(5, "")})
	var got []string
	for range 4 {
		got = append(got, tail.message())
	}
	if !strings.Contains(got[0], "u:4") || !strings.Contains(got[1], "u:5") || got[2] != "event: skipped" || got[3] != `data: {"events":3}` {
		t.Errorf("the tail shows %q", got)
	}
}

func TestTailRefusesWrongFilters(t *testing.T) {
	o := options()
	o.Operator, o.TokenFile = &operator{}, tokenFile(t)
	s := start(t, o)
	if code, body := get(t, s, "/tail"); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", code, body)
	}
	for query, says := range map[string]string{
		"resource=Pod/a": "kubectl", "op=changed": "modified", "condition=object.": "condition, line 1", "perSecond=-1": "perSecond", "condition=nothing": "nothing",
	} {
		bearer := http.Header{"Authorization": {"Bearer " + token}}
		code, body := request(t, http.DefaultClient, "GET /tail?"+query, s.Address(), bearer)
		if code != http.StatusBadRequest || !strings.Contains(body, says) {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}

// TestTailsEndWithTheServer: one that is open does not hold up the end, and the reader is gone.
func TestTailsEndWithTheServer(t *testing.T) {
	asked, o := &operator{}, options()
	o.Operator, o.TokenFile = asked, tokenFile(t)
	s := admin.New(o)
	must(t, s.Start())
	tail := openTail(t, s, nil)
	must(t, s.Shutdown(t.Context()))
	for tail.Scan() {
		t.Logf("after the end: %s", tail.Text())
	}
	if n := asked.feed.Readers(); n != 0 {
		t.Errorf("%d readers are open", n)
	}
}

// TestForwardedAnswersHaveNoEnd: what the leader sends has a limit for each write, as a tail of this
// informd, in place of one for the answer.
func TestForwardedAnswersHaveNoEnd(t *testing.T) {
	t.Parallel()
	began, failed := time.Now(), make(chan error, 1)
	o := onSocket(filepath.Join(t.TempDir(), "socket"))
	o.Forward = func() http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for chunk := make([]byte, 1<<20); ; {
				if _, err := w.Write(chunk); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	start(t, o)
	conn, err := admin.DialSocket(t.Context(), o.Socket)
	must(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET /tail HTTP/1.1\r\nHost: informd\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	const limit = 30 * time.Second // of all other answers
	if err, took := <-failed, time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took >= limit {
		t.Errorf("a client that does not read is dropped after %v: %v", took, err)
	}
}

// TestListsOfEvents: the answers are JSON with any number of events, and of an error before the first
// one there is no half answer.
func TestListsOfEvents(t *testing.T) {
	for _, test := range []struct {
		events []string
		fails  error
		code   int
		want   []string // of /history and /gaps
	}{
		{nil, nil, http.StatusOK, []string{`{"object":"pods/a/b","historyPerObject":16,"events":[]}`, `{"events":[]}`}},
		{[]string{`{"id":"1"}`}, nil, http.StatusOK, []string{`{"object":"pods/a/b","historyPerObject":16,"events":[{"id":"1"}]}`, `{"events":[{"id":"1"}]}`}},
		{[]string{`{"id":"1"}`, `{"id":"2\u202e"}`}, nil, http.StatusOK, []string{
			`{"object":"pods/a/b","historyPerObject":16,"events":[{"id":"1"},{"id":"2\u202e"}]}`, `{"events":[{"id":"1"},{"id":"2\u202e"}]}`,
		}},
		{nil, errors.New("the journal has failed"), http.StatusInternalServerError, []string{"the journal has failed", "the journal has failed"}},
	} {
		socket := filepath.Join(t.TempDir(), "socket")
		o := onSocket(socket)
		o.Operator = &operator{events: test.events, fails: test.fails}
		s := start(t, o)
		for i, path := range []string{"GET /history?object=pods/a/b", "GET /gaps"} {
			code, body := request(t, asking(t, s, socket, ""), path, "informd", http.Header{})
			if code != test.code || !strings.Contains(body, test.want[i]) || code == http.StatusOK && strings.TrimSpace(body) != test.want[i] {
				t.Errorf("%s of %v, %v: %d %q, want %d %q", path, test.events, test.fails, code, body, test.code, test.want[i])
			}
		}
	}
}

// TestPageState: what the page shows beside the status leads to entries of the runbooks, and its charts
// have a sample from the beginning.
func TestPageState(t *testing.T) {
	s := start(t, options(admin.Target{Target: "core/pods", State: "live", EventsPerSecond: 1.5}, admin.Target{Target: "core/secrets", EventsPerSecond: 2}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address()+"/page/status", http.NoBody)
	must(t, err)
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	must(t, err)
	var state struct {
		Cluster  string
		Runbooks map[string]string
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &state); err != nil || state.Cluster != "c" || len(state.Runbooks) != 4 {
		t.Fatalf("%v: %s", err, line)
	}
	want := `"eventsPerSecond":[3.5],"sinks":[{"name":"dead","lagSeconds":[0]}]`
	for began := time.Now(); ; {
		code, body := get(t, s, "/page/samples")
		if code == http.StatusOK && strings.Contains(body, want) {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%d %s, want %s", code, body, want)
		}
	}
}
