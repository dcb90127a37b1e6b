package sinks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/natsserver"
)

// documented is a server with the user of a page in docs, which knows every subject of the
// messages that it got.
type documented struct {
	server *natsserver.Server
	text   string

	mu       sync.Mutex
	subjects map[string]bool
}

func startDocumented(t *testing.T, file string) *documented {
	t.Helper()
	page, err := os.ReadFile(filepath.Clean(file))
	must(t, err)
	_, text, _ := strings.Cut(string(page), "```conf\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatalf("%s has no configuration of a server", file)
	}
	text = strings.ReplaceAll(text, "prod-eu1", "test") // the cluster of the samples
	t.Setenv("SINK_PASSWORD", "p")
	d := &documented{text: text, subjects: map[string]bool{}}
	d.server = natsserver.Start(t, natsserver.Options{
		Config:  strings.Replace(text, "users: [", "users: [{user: root, password: r}", 1),
		Connect: []client.Option{client.UserInfo("root", "r")},
	})
	root := dial(t, d.server.URL(), client.UserInfo("root", "r"))
	if _, err := root.Subscribe(">", func(m *client.Msg) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.subjects[m.Subject] = true
	}); err != nil {
		t.Fatal(err)
	}
	must(t, root.Flush())
	return d
}

// url is where a user logs in.
func (d *documented) url(user string) string {
	return strings.Replace(d.server.URL(), "nats://", "nats://"+user+":p@", 1)
}

// wantUsed waits until everything that a user may publish to has been published to.
func (d *documented) wantUsed(t *testing.T, user string) {
	t.Helper()
	_, own, _ := strings.Cut(d.text, "user: "+user+",")
	_, own, _ = strings.Cut(own, "publish: [")
	own, _, _ = strings.Cut(own, "]")
	allowed := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(own, -1)
	if len(allowed) < 4 {
		t.Fatalf("user %s may publish to %q", user, allowed)
	}
	var unused []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); pause(t.Context(), 10*time.Millisecond) {
		unused = unused[:0]
		d.mu.Lock()
		for _, pattern := range allowed {
			used := false
			for subject := range d.subjects {
				used = used || matches(pattern[1], subject)
			}
			if !used {
				unused = append(unused, pattern[1])
			}
		}
		d.mu.Unlock()
		if len(unused) == 0 {
			return
		}
	}
	t.Errorf("user %s does not need %q", user, unused)
}

func matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		if token == ">" {
			return len(have) > i
		}
		if i >= len(have) || token != "*" && token != have[i] {
			return false
		}
	}
	return len(want) == len(have)
}

// TestNATSSinkPermissions: a sink needs exactly the permissions in docs/sinks/nats.md.
func TestNATSSinkPermissions(t *testing.T) {
	d := startDocumented(t, "../../docs/sinks/nats.md")
	events := sinktest.Events(20)
	sinktest.Deliver(t, open(t, config(t, d.url("sink"), useJetStream)), events)
	wantOnce(t, jetStream(t, dial(t, d.server.URL(), client.UserInfo("root", "r"))), events)
	d.wantUsed(t, "sink")
}

// startDeployed runs a server with the accounts of deploy/kustomize/overlays/nats,
// and returns the URLs of its two users.
func startDeployed(t *testing.T) (informd, reader string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kustomize/overlays/nats/nats.conf")
	must(t, err)
	_, accounts, ok := strings.Cut(string(text), "\naccounts {")
	if !ok {
		t.Fatal("nats.conf has no accounts")
	}
	t.Setenv("INFORMD_PASSWORD", "p1")
	t.Setenv("READER_PASSWORD", "p2")
	server := natsserver.Start(t, natsserver.Options{
		// The test's own user, as the file says one is added.
		Config:  "accounts {" + strings.Replace(accounts, "users: [", "users: [{user: root, password: r}", 1),
		Connect: []client.Option{client.UserInfo("root", "r")},
	})
	as := func(user string) string { return strings.Replace(server.URL(), "nats://", "nats://"+user+"@", 1) }
	return as("informd:p1"), as("reader:p2")
}

// TestNATSDeployedReader: informd's user fills the stream, the reader reads it to
// the end, live and from the beginning, and nothing that it tries changes it.
func TestNATSDeployedReader(t *testing.T) {
	informd, reader := startDeployed(t)
	s := open(t, config(t, informd, useJetStream))
	events := sinktest.Events(20)
	live := subscribe(t, reader)
	sinktest.Deliver(t, s, events)
	live.wait(t)
	if got := len(live.messages(t)); got != len(events) {
		t.Errorf("%d messages live, want %d", got, len(events))
	}

	conn := dial(t, reader)
	js, err := jetstream.NewWithAPIPrefix(conn, "READ.API")
	must(t, err)
	stream, err := js.Stream(t.Context(), streamName)
	must(t, err)
	consumer, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "app", AckPolicy: jetstream.AckExplicitPolicy})
	must(t, err)
	batch, err := consumer.Fetch(len(events), jetstream.FetchMaxWait(5*time.Second))
	must(t, err)
	for m := range batch.Messages() {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if info, err := consumer.Info(t.Context()); err != nil || info.AckFloor.Stream != uint64(len(events)) {
		t.Errorf("acknowledged %+v (%v), want all %d", info, err, len(events))
	}
	before := stream.CachedInfo().State

	const purge = "$JS.API.STREAM.PURGE." + streamName
	next := "READ.API.CONSUMER.MSG.NEXT." + streamName + ".app2"
	if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "app2", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	for subject, reply := range map[string]string{
		"k8s.test.core.pods.shop.web":          "",
		purge:                                  "",
		"READ.API.STREAM.PURGE." + streamName:  "",
		"READ.API.STREAM.DELETE." + streamName: "",
		// The answers would go there.
		"READ.API.STREAM.INFO." + streamName: "k8s.test.core.pods.shop.web",
		next:                                 "k8s.test.core.pods.shop.other",
	} {
		if err := conn.PublishMsg(&client.Msg{Subject: subject, Reply: reply}); err != nil {
			t.Error(err)
		}
	}
	for i, subject := range []string{purge, "k8s.test.core.pods.shop.pushed"} {
		// Whether it is refused or leads nowhere: what counts is the stream below.
		_, _ = conn.Request(fmt.Sprintf("READ.API.CONSUMER.CREATE.%s.push%d", streamName, i), fmt.Appendf(nil,
			`{"stream_name":%q,"config":{"name":"push%d","deliver_subject":%q,"ack_policy":"none"}}`, streamName, i, subject), time.Second)
	}
	sinktest.Deliver(t, s, sinktest.Events(21)[20:])
	info, err := stream.Info(t.Context())
	must(t, err)
	if info.State.LastSeq != before.LastSeq+uint64(1) || info.State.Msgs != info.State.LastSeq {
		t.Errorf("the reader changed the stream: %d messages up to %d, want %d", info.State.Msgs, info.State.LastSeq, len(events)+1)
	}
}

func TestNATSOverTLS(t *testing.T) {
	const host = "nats.example.com"
	dir := t.TempDir()
	certFile, keyFile := sinktest.Certificate(t, filepath.Join(dir, host), host)
	otherCert, otherKey := sinktest.Certificate(t, filepath.Join(dir, "informd"), "informd")
	server := natsserver.Start(t, natsserver.Options{
		Config: fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }", certFile, keyFile, otherCert),
		Connect: []client.Option{
			client.Secure(), client.RootCAs(certFile), client.ClientCert(otherCert, otherKey),
			func(o *client.Options) error { o.TLSConfig.ServerName = host; return nil },
		},
	})
	right := connection.TLS{CAFile: certFile, CertFile: otherCert, KeyFile: otherKey, ServerName: host}
	tests := map[string]struct {
		change func(c *connection.TLS)
		says   string // "" if it works
	}{
		"right":          {func(*connection.TLS) {}, ""},
		"wrong CA":       {func(c *connection.TLS) { c.CAFile = otherCert }, "certificate is not trusted"},
		"system's CAs":   {func(c *connection.TLS) { c.CAFile = "" }, "certificate is not trusted"},
		"wrong name":     {func(c *connection.TLS) { c.ServerName = "" }, "tls.serverName"},
		"no certificate": {func(c *connection.TLS) { c.CertFile, c.KeyFile = "", "" }, "tls.certFile"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := open(t, config(t, server.URL(), func(c *nats.Config) {
				c.TLS = right
				tt.change(&c.TLS)
			}))
			if tt.says == "" {
				sinktest.Deliver(t, s, sinktest.Events(5))
				return
			}
			wantErrorOf(t, writeFails(t, s, sinktest.Events(5), 20*time.Second), tt.says)
		})
	}
	t.Run("tls:// to a server without", func(t *testing.T) {
		plain := startServer(t)
		s := open(t, config(t, strings.Replace(plain.URL(), "nats:", "tls:", 1), nil))
		wantErrorOf(t, writeFails(t, s, sinktest.Events(5), 20*time.Second), "has no TLS")
	})
}

// operator makes users that a server knows by their JWT alone.
type operator struct {
	account nkeys.KeyPair
	config  string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	created := func(pair nkeys.KeyPair, err error) (nkeys.KeyPair, string) {
		t.Helper()
		must(t, err)
		public, err := pair.PublicKey()
		must(t, err)
		return pair, public
	}
	operatorKey, operatorID := created(nkeys.CreateOperator())
	accountKey, accountID := created(nkeys.CreateAccount())
	_, systemID := created(nkeys.CreateAccount())
	encode := func(claims jwt.Claims) string {
		t.Helper()
		token, err := claims.Encode(operatorKey)
		must(t, err)
		return token
	}
	operatorClaims := jwt.NewOperatorClaims(operatorID)
	operatorClaims.SystemAccount = systemID
	account := jwt.NewAccountClaims(accountID)
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	return &operator{account: accountKey, config: fmt.Sprintf(
		"operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n%s: %s\n%s: %s\n}",
		encode(operatorClaims), systemID, accountID, encode(account), systemID, encode(jwt.NewAccountClaims(systemID)))}
}

// creds returns the content of a credentials file of a new user.
func (o *operator) creds(t *testing.T, lifetime time.Duration) string {
	t.Helper()
	user := userKey(t)
	claims := jwt.NewUserClaims(user.public)
	claims.Expires = time.Now().Add(lifetime).Unix()
	token, err := claims.Encode(o.account)
	must(t, err)
	content, err := jwt.FormatUserConfig(token, []byte(user.seed))
	must(t, err)
	return string(content)
}

// TestNATSCredsRotate writes new credentials into the file before the old ones
// expire and the server ends the connection.
func TestNATSCredsRotate(t *testing.T) {
	o := newOperator(t)
	file := filepath.Join(t.TempDir(), "user.creds")
	own := filepath.Join(t.TempDir(), "own.creds")
	writeFile(t, own, o.creds(t, time.Hour))
	server := natsserver.Start(t, natsserver.Options{Config: o.config, Connect: []client.Option{client.UserCredentials(own)}})
	writeFile(t, file, o.creds(t, 2*time.Second))
	s := open(t, config(t, server.URL(), func(c *nats.Config) { c.JetStream, c.Auth.CredsFile = true, file }))
	events := sinktest.Events(100)
	sinktest.Deliver(t, s, events[:50])
	before, err := os.ReadFile(file)
	must(t, err)
	writeFile(t, file, o.creds(t, time.Hour))
	pause(t.Context(), 3*time.Second) // the first ones have expired
	sinktest.Deliver(t, s, events[50:])
	wantOnce(t, jetStream(t, dial(t, server.URL(), client.UserCredentials(own))), events)

	// And back to what has expired: a new sink is refused, and says why.
	writeFile(t, file, string(before))
	s = open(t, config(t, server.URL(), func(c *nats.Config) { c.JetStream, c.Auth.CredsFile = true, file }))
	wantErrorOf(t, writeFails(t, s, events[:1], 10*time.Second), "refuses the credentials")
}
