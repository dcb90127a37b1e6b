package sinks_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/natsserver"
)

func isPermanent(err error) bool { return sink.IsPermanent(err) }

// wantErrorOf holds an error that only the user can mend to be retryable, and to
// say the words.
func wantErrorOf(t *testing.T, err error, words ...string) {
	t.Helper()
	if isPermanent(err) {
		t.Errorf("permanent: %v", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}

func TestNATSRefusesStream(t *testing.T) {
	tests := map[string]struct {
		change func(c *jetstream.StreamConfig)
		words  []string
	}{
		"memory":            {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, []string{"storage is memory, want file"}},
		"other subjects":    {func(c *jetstream.StreamConfig) { c.Subjects = []string{"k8s.prod.>"} }, []string{`["k8s.prod.>"]`, "k8s.test.>"}},
		"too few subjects":  {func(c *jetstream.StreamConfig) { c.Subjects = []string{"k8s.test.*.*.*.*"} }, []string{"do not cover"}},
		"async":             {func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }, []string{"persist_mode"}},
		"work queue":        {func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, []string{"retention", "WorkQueue"}},
		"no ack":            {func(c *jetstream.StreamConfig) { c.NoAck = true }, []string{"no_ack"}},
		"full means old go": {func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, []string{"discard", "max_bytes"}},
		"two things":        {func(c *jetstream.StreamConfig) { c.MaxMsgs, c.NoAck = 5, true }, []string{"discard", "no_ack"}},
	}
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			createStream(t, js, tt.change)
			before := streamConfig(t, js)
			s := open(t, config(t, server.URL(), useJetStream))
			err := writeFails(t, s, sinktest.Events(3), 10*time.Second)
			wantErrorOf(t, err, append(tt.words, streamName)...)
			if after := streamConfig(t, js); !reflect.DeepEqual(before, after) {
				t.Errorf("the stream was changed: %+v, was %+v", after, before)
			}
			// The user mends it; the sink goes on by itself.
			must(t, js.DeleteStream(t.Context(), streamName))
			sinktest.Deliver(t, s, sinktest.Events(3))
			must(t, js.DeleteStream(t.Context(), streamName))
		})
	}
}

func streamConfig(t *testing.T, js jetstream.JetStream) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(t.Context(), streamName)
	must(t, err)
	return stream.CachedInfo().Config
}

func TestNATSCreatesStream(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	s := open(t, config(t, server.URL(), func(c *nats.Config) {
		c.JetStream, c.Stream, c.SubjectPrefix = true, "MINE", "a.b"
		c.Create.MaxAge, c.Create.MaxBytes = time.Hour, 5*sink.MiB
	}))
	sinktest.Deliver(t, s, sinktest.Events(1))
	stream, err := js.Stream(t.Context(), "MINE")
	must(t, err)
	got := stream.CachedInfo().Config
	if got.Storage != jetstream.FileStorage || got.Discard != jetstream.DiscardNew || got.MaxAge != time.Hour ||
		got.MaxBytes != 5<<20 || got.MaxMsgs != -1 || got.MaxMsgsPerSubject != 16 || !reflect.DeepEqual(got.Subjects, []string{"a.b.>"}) {
		t.Errorf("created %+v", got)
	}
}

// TestNATSHistory has objects that change for ever and one that is deleted, in a
// stream with a limit: it must not fill, and must end with the last states.
func TestNATSHistory(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	s := open(t, config(t, server.URL(), func(c *nats.Config) {
		c.JetStream, c.Create.HistoryPerObject, c.Create.MaxBytes = true, 2, sink.MiB
	}))
	gone := sinktest.Events(1)[0]
	gone.Op, gone.ID, gone.Data = event.Deleted, form.DeletedID(gone.UID, 0), nil
	events := busy(300 * 20) // 20 states of each object
	sinktest.Deliver(t, s, []event.Event{gone})
	sinktest.Deliver(t, s, events)
	want := map[string]bool{gone.ID: true}
	for _, e := range events[len(events)-2*300:] {
		want[e.ID] = true
	}
	all := stored(t, js, streamName)
	for _, m := range all {
		if id := m.Header.Get("ce-id"); !want[id] {
			t.Errorf("the stream holds %s, which is not one of the last", id)
		}
	}
	if len(all) != len(want) {
		t.Errorf("the stream holds %d messages, want %d", len(all), len(want))
	}
}

func TestNATSSubjectsOfAnotherStream(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	createStream(t, js, func(c *jetstream.StreamConfig) { c.Name = "JOURNAL" })
	s := open(t, config(t, server.URL(), useJetStream))
	wantErrorOf(t, writeFails(t, s, sinktest.Events(1), 10*time.Second), "JOURNAL", "k8s.>", "subjectPrefix")
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(content), 0o600))
}

func TestNATSWrongCredentials(t *testing.T) {
	const password = "canary-5d1f"
	server := natsserver.Start(t, natsserver.Options{
		Config:  "authorization { user: informd, password: right }",
		Connect: []client.Option{client.UserInfo("informd", "right")},
	})
	url := strings.Replace(server.URL(), "nats://", "nats://informd:"+password+"@", 1)
	s := open(t, config(t, url, useJetStream))
	for range 3 {
		err := writeFails(t, s, sinktest.Events(1), 10*time.Second)
		wantErrorOf(t, err, "Authorization Violation", "check auth")
		if strings.Contains(err.Error(), password) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// TestNATSCredentialsHeal starts with the wrong content in the file and then
// writes the right one, as a rotation does.
func TestNATSCredentialsHeal(t *testing.T) {
	right, wrong := userKey(t), userKey(t)
	tests := map[string]struct {
		authorization string
		connect       client.Option
		use           func(c *nats.Config, file string)
		right, wrong  string
	}{
		"token": {
			authorization: "token: right", connect: client.Token("right"),
			use:   func(c *nats.Config, file string) { c.Auth.TokenFile = file },
			right: "right\n", wrong: "wrong\n",
		},
		"password": {
			authorization: "user: informd, password: right", connect: client.UserInfo("informd", "right"),
			use:   func(c *nats.Config, file string) { c.Auth.Username, c.Auth.PasswordFile = "informd", file },
			right: "right\n", wrong: "wrong\n",
		},
		"nkey": {
			authorization: "users: [{nkey: " + right.public + "}]", connect: client.Nkey(right.public, right.pair.Sign),
			use:   func(c *nats.Config, file string) { c.Auth.NkeyFile = file },
			right: right.seed, wrong: wrong.seed,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := natsserver.Start(t, natsserver.Options{
				Config: "authorization { " + tt.authorization + " }", Connect: []client.Option{tt.connect},
			})
			file := filepath.Join(t.TempDir(), "secret")
			writeFile(t, file, tt.wrong)
			s := open(t, config(t, server.URL(), func(c *nats.Config) { tt.use(c, file) }))
			wantErrorOf(t, writeFails(t, s, sinktest.Events(1), 10*time.Second), "refuses the credentials")
			writeFile(t, file, tt.right)
			sinktest.Deliver(t, s, sinktest.Events(1))
		})
	}
}

type key struct {
	pair         nkeys.KeyPair
	public, seed string
}

func userKey(t *testing.T) key {
	t.Helper()
	pair, err := nkeys.CreateUser()
	must(t, err)
	public, err := pair.PublicKey()
	must(t, err)
	seed, err := pair.Seed()
	must(t, err)
	return key{pair, public, string(seed)}
}

// TestNATSDenied takes permissions away one by one: the error names the subject
// and comes at once, not as a timeout.
func TestNATSDenied(t *testing.T) {
	tests := map[string]struct {
		jetstream bool
		deny      string
		words     []string
	}{
		"core publish":  {deny: "k8s.>", words: []string{"Permissions Violation", "k8s.test."}},
		"publish":       {jetstream: true, deny: "k8s.>", words: []string{"Permissions Violation", "k8s.test."}},
		"stream info":   {jetstream: true, deny: "$JS.API.STREAM.INFO.*", words: []string{"STREAM.INFO"}},
		"stream create": {jetstream: true, deny: "$JS.API.STREAM.CREATE.*", words: []string{"STREAM.CREATE", "create stream"}},
		"direct get":    {jetstream: true, deny: "$JS.API.DIRECT.GET.>", words: []string{"DIRECT.GET"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := natsserver.Start(t, natsserver.Options{
				Config: fmt.Sprintf(`authorization { users: [{user: root, password: r},
					{user: u, password: p, permissions: {publish: {deny: %q}}}] }`, tt.deny),
				Connect: []client.Option{client.UserInfo("root", "r")},
			})
			url := strings.Replace(server.URL(), "nats://", "nats://u:p@", 1)
			s := open(t, config(t, url, func(c *nats.Config) { c.JetStream = tt.jetstream }))
			for range 2 {
				started := time.Now()
				wantErrorOf(t, writeFails(t, s, sinktest.Events(5), 20*time.Second), append(tt.words, "denies a permission")...)
				if took := time.Since(started); took > 4*time.Second {
					t.Errorf("it took %v", took)
				}
			}
		})
	}
}

// TestNATSWithoutJetStream: neither the account nor the server may have it. The error names both ways out, one of which
// is core NATS.
func TestNATSWithoutJetStream(t *testing.T) {
	const accounts = `accounts { WITH: {jetstream: enabled, users: [{user: root, password: r}]}, WITHOUT: {users: [{user: u, password: p}]} }`
	events := sinktest.Events(3)
	for name, tt := range map[string]struct {
		options natsserver.Options
		user    string
	}{
		"account": {natsserver.Options{Config: accounts, Connect: []client.Option{client.UserInfo("root", "r")}}, "u:p@"},
		"server":  {natsserver.Options{NoJetStream: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			url := strings.Replace(natsserver.Start(t, tt.options).URL(), "nats://", "nats://"+tt.user, 1)
			withDefaults := func(c *nats.Config) { c.JetStream = true }
			wantErrorOf(t, writeFails(t, open(t, config(t, url, withDefaults)), events, 10*time.Second),
				"no JetStream", "enable JetStream", "set jetstream: false", "at most once")
			in := subscribe(t, url)
			sinktest.Deliver(t, open(t, config(t, url, nil)), events)
			if got := len(in.messages(t)); got != len(events) {
				t.Errorf("with jetstream: false a subscriber got %d messages, want %d", got, len(events))
			}
		})
	}
}

// TestNATSNeverCreates: with create: false the sink waits until the stream exists, and says so.
func TestNATSNeverCreates(t *testing.T) {
	server := startServer(t)
	js := jetStream(t, dial(t, server.URL()))
	s := open(t, config(t, server.URL(), func(c *nats.Config) {
		useJetStream(c)
		c.Create.Never = true
	}))
	wantErrorOf(t, writeFails(t, s, sinktest.Events(3), 10*time.Second), "stream "+streamName+" does not exist", "create is false", "k8s.>", "create: true")
	if _, err := js.Stream(t.Context(), streamName); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream: %v, want none", err)
	}
	createStream(t, js, nil)
	sinktest.Deliver(t, s, sinktest.Events(3))
	wantOnce(t, js, sinktest.Events(3))
}

// TestErrorsOfTheServerAreKnown: the sink classifies each error that nats-server documents, in a golden
// file that its unit test reads. A server with other errors has to be looked at: what a new one means for
// a message goes to the end of its line.
func TestErrorsOfTheServerAreKnown(t *testing.T) {
	var want []string
	for _, e := range server.ApiErrors {
		want = append(want, fmt.Sprintf("%d %d %s", e.Code, e.ErrCode, e.Description))
	}
	const golden = "../../pkg/sink/nats/testdata/errors.golden"
	content, err := os.ReadFile(golden)
	must(t, err)
	var got []string
	for line := range strings.Lines(string(content)) {
		got = append(got, line[:strings.LastIndex(line, ": ")])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s has the errors\n%s\nand the server\n%s", golden, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
