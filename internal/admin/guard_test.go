package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/tail"
)

// operator counts the requests that reach it.
type operator struct {
	asked   int
	numbers []uint64 // of the last request about dead letters
	fails   error    // the error after the first dead letter of a list
	feed    tail.Feed
	events  []string // of each object, and the gaps
}

func (o *operator) History(context.Context, string) (admin.Past, error) {
	o.asked++
	return admin.Past{Object: "pods/a/b", Limit: 16, Each: o.EachGap}, nil
}

func (o *operator) EachGap(_ context.Context, take func(json.RawMessage) error) error {
	o.asked++
	for _, e := range o.events {
		if err := take(json.RawMessage(e)); err != nil {
			return err
		}
	}
	return o.fails
}

func (o *operator) Tail(wants *tail.Wants) (*tail.Reader, error) {
	o.asked++
	return o.feed.Open(wants.Match)
}

func (o *operator) EachLetter(_ context.Context, _ string, take func(admin.Letter) error) error {
	o.asked++
	return errors.Join(take(admin.Letter{Sink: "s", Number: 1, Letter: json.RawMessage(`{}`)}), o.fails)
}

func (o *operator) RedeliverLetters(_ context.Context, _ string, numbers []uint64) (admin.Count, error) {
	o.asked++
	o.numbers = numbers
	return admin.Count{}, nil
}

func (o *operator) DropLetters(_ context.Context, _ string, numbers []uint64) (admin.Count, error) {
	o.asked++
	o.numbers = numbers
	return admin.Count{}, nil
}

func (o *operator) Rewind(context.Context, string, time.Time) (admin.Rewind, error) {
	o.asked++
	return admin.Rewind{}, nil
}

func (o *operator) Resnapshot(context.Context, string, string) ([]admin.Resnapshot, error) {
	o.asked++
	return nil, nil
}

func (o *operator) Reload(context.Context) (admin.Reload, error) {
	o.asked++
	return admin.Reload{}, nil
}

func (o *operator) Verify(context.Context) ([]admin.Verdict, error) {
	o.asked++
	return nil, nil
}

// operations are the requests that change something or show objects.
func operations() []string {
	return []string{
		"GET /deadletters", "POST /deadletters/redeliver?all=true", "POST /deadletters/drop?all=true", "POST /rewind?since=1m",
		"POST /resnapshot", "POST /verify", "POST /reload",
		"GET /history", "GET /gaps",
	}
}

const token = "0123456789abcdef-token"

func tokenFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(path, []byte(token+"\n"), 0o600))
	return path
}

// asking is a client over TCP from an address, or over the socket.
func asking(t *testing.T, s *admin.Server, socket, from string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		switch {
		case socket != "":
			return admin.DialSocket(ctx, socket)
		case from != "":
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, "tcp", s.Address())
		}
		return new(net.Dialer).DialContext(ctx, "tcp", s.Address())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// request sends "POST /verify" to a host with headers and returns the status and the body.
func request(t *testing.T, c *http.Client, what, host string, header http.Header) (code int, body string) {
	t.Helper()
	method, path, _ := strings.Cut(what, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, nil)
	must(t, err)
	r.Header = header.Clone()
	response, err := c.Do(r)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}

// TestOperatorsAreKnown: what changes something or shows objects is for the owner of the
// socket and for the holder of the token, directly: no proxy and no web page is between.
func TestOperatorsAreKnown(t *testing.T) {
	right := http.Header{"Authorization": {"Bearer " + token}}
	with := func(name, value string) http.Header { h := right.Clone(); h.Set(name, value); return h }
	for name, test := range map[string]struct {
		socket bool
		token  bool // admin.tokenFile is set
		from   string
		host   string
		header http.Header
		want   int
		says   string
	}{
		"socket":                  {socket: true, want: 200},
		"socket, localhost":       {socket: true, host: "localhost", want: 200},
		"socket, forwarded":       {socket: true, header: with("X-Forwarded-For", "10.0.0.1"), want: 403, says: "proxy"},
		"socket, another host":    {socket: true, host: "evil.example.com", want: 403, says: "Host"},
		"TCP without a token":     {want: 403, says: "admin.socket"},
		"TCP, a token unasked":    {header: right, want: 403, says: "admin.tokenFile"},
		"token":                   {token: true, header: right, want: 200},
		"no token shown":          {token: true, want: 401, says: "token"},
		"a wrong token":           {token: true, header: with("Authorization", "Bearer 0123456789abcdef-tokex"), want: 401},
		"another scheme":          {token: true, header: with("Authorization", "Basic "+token), want: 401},
		"a proxy":                 {token: true, header: with("X-Forwarded-For", "10.0.0.1"), want: 403, says: "X-Forwarded-For"},
		"a standard proxy":        {token: true, header: with("Forwarded", "for=10.0.0.1"), want: 403, says: "Forwarded"},
		"a cache":                 {token: true, header: with("Via", "1.1 cache"), want: 403, says: "Via"},
		"nginx":                   {token: true, header: with("X-Real-Ip", "10.0.0.1"), want: 403, says: "X-Real-Ip"},
		"Envoy":                   {token: true, header: with("X-Envoy-External-Address", "10.0.0.1"), want: 403, says: "X-Envoy"},
		"a mesh":                  {token: true, header: right, from: "127.0.0.6", want: 403, says: "127.0.0.6"},
		"a page of another site":  {token: true, header: with("Sec-Fetch-Site", "cross-site"), want: 403, says: "another site"},
		"a page of the same site": {token: true, header: with("Sec-Fetch-Site", "same-site"), want: 403, says: "another site"},
		"a page with an origin":   {token: true, header: with("Origin", "http://localhost"), want: 403, says: "web page"},
		"a name that rebinds":     {token: true, header: right, host: "evil.example.com", want: 403, says: "admin.hosts"},
		"a name of the config":    {token: true, header: right, host: "Informd.Example.com", want: 200},
	} {
		t.Run(name, func(t *testing.T) {
			asked := &operator{}
			o := options()
			o.Operator, o.Hosts = asked, []string{"informd.example.com"}
			socket := ""
			if test.socket {
				o.Socket = filepath.Join(t.TempDir(), "admin.sock")
				socket = o.Socket
			}
			if test.token {
				o.TokenFile = tokenFile(t)
			}
			s := start(t, o)
			c := asking(t, s, socket, test.from)
			host := test.host
			if host == "" {
				host = s.Address()
			}
			for _, what := range operations() {
				if code, body := request(t, c, what, host, test.header); code != test.want || !strings.Contains(body, test.says) {
					t.Errorf("%s: %d %s", what, code, body)
				}
			}
			if served := asked.asked > 0; served != (test.want == http.StatusOK) {
				t.Errorf("the operator was asked %d times", asked.asked)
			}
		})
	}
}

// TestReadersAreDirect: status and metrics are for scrapers, and for no web page.
func TestReadersAreDirect(t *testing.T) {
	for name, test := range map[string]struct {
		listen string
		host   string
		header http.Header
		want   int
	}{
		"an address":               {want: 200},
		"a name of the machine":    {host: "node-1", want: 200},
		"a service of the cluster": {host: "informd.informd.svc.cluster.local:8080", want: 200},
		"a name of the config":     {host: "informd.example.com", want: 200},
		"a name that rebinds":      {host: "evil.example.com", want: 403},
		"a page of another site":   {header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, want: 403},
		"a browser":                {header: http.Header{"Sec-Fetch-Site": {"none"}}, want: 200},
		"a proxy to loopback":      {header: http.Header{"X-Forwarded-For": {"10.0.0.1"}}, want: 403},
		"a proxy to all addresses": {listen: ":0", host: "10.0.0.9", header: http.Header{"X-Forwarded-For": {"10.0.0.1"}}, want: 200},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(admin.Target{Target: "t", State: "live", Looked: true, Beat: time.Now()})
			o.Hosts = []string{"informd.example.com"}
			if test.listen != "" {
				o.Listen = test.listen
			}
			s := start(t, o)
			c, host := asking(t, s, "", ""), test.host
			if host == "" {
				host = s.Address()
			}
			for _, path := range []string{"/status", "/metrics", "/", "/page/page.js"} {
				if code, body := request(t, c, "GET "+path, host, test.header); code != test.want {
					t.Errorf("%s: %d %s", path, code, body)
				}
			}
			if code, body := request(t, c, "GET /readyz", host, test.header); code != http.StatusOK {
				t.Errorf("a probe: %d %s", code, body)
			}
		})
	}
}

// TestRefusalsAreLoggedOnce: a flood of refused requests is no flood of lines.
func TestRefusalsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	o := options()
	o.Operator, o.Logger = &operator{}, slog.New(slog.NewTextHandler(&log, nil))
	s := admin.New(o)
	must(t, s.Start())
	c := asking(t, s, "", "")
	for range 50 {
		if code, body := request(t, c, "POST /verify", s.Address(), nil); code != http.StatusForbidden {
			t.Fatalf("%d %s", code, body)
		}
	}
	must(t, s.Shutdown(t.Context()))
	if n := strings.Count(log.String(), "admin request refused"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

// TestTokenIsChecked: a token that anybody could guess is refused at the start.
func TestTokenIsChecked(t *testing.T) {
	for name, text := range map[string]string{"empty": "\n", "short": "0123456789abcde", "huge": strings.Repeat("a", 5000)} {
		o := options()
		o.TokenFile = filepath.Join(t.TempDir(), "token")
		must(t, os.WriteFile(o.TokenFile, []byte(text), 0o600))
		if err := admin.New(o).Start(); err == nil || !strings.Contains(err.Error(), "admin.tokenFile") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNumbersOfLettersCountOnce: a number that a request has twice is one dead letter.
func TestNumbersOfLettersCountOnce(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	asked := &operator{}
	o := onSocket(socket)
	o.Operator, o.Logger = asked, slog.New(slog.DiscardHandler)
	s := start(t, o)
	for _, what := range []string{"redeliver", "drop"} {
		asked.numbers = nil
		code, body := request(t, asking(t, s, socket, ""), "POST /deadletters/"+what+"?sink=s&number=3&number=4&number=3", "informd", http.Header{})
		if code != http.StatusOK || !slices.Equal(asked.numbers, []uint64{3, 4}) {
			t.Errorf("%s: %d %s, numbers %v, want 3 and 4", what, code, body, asked.numbers)
		}
	}
}

// TestIncompleteLists: a list fails after its first element. The answer must not look complete, as
// its status was sent before.
func TestIncompleteLists(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	o := onSocket(socket)
	o.Operator, o.Logger = &operator{events: []string{"{}"}, fails: errors.New("the journal has failed")}, slog.New(slog.DiscardHandler)
	s := start(t, o)
	for _, path := range []string{"/deadletters", "/history?object=pods/a/b", "/gaps"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://informd"+path, nil)
		must(t, err)
		response, err := asking(t, s, socket, "").Do(r)
		if err != nil {
			continue // the connection broke before the status
		}
		if text, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("%s: a complete answer: %d %s", path, response.StatusCode, text)
		}
		_ = response.Body.Close()
	}
}
