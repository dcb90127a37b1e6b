package configfile_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/drivers"
)

// compare compares configs without their functions and without what they know of
// their files.
func compare(want, got any, more ...cmp.Option) string {
	return cmp.Diff(want, got, append(more,
		cmp.AllowUnexported(sink.Secret{}, webhookOptions{}),
		cmpopts.IgnoreFields(sink.Driver{}, "New"),
		cmpopts.IgnoreFields(config.Config{}, "Sum", "Places"),
		cmpopts.IgnoreFields(config.Match{}, "When"),
		cmpopts.IgnoreTypes(noSink{}))...)
}

func TestGood(t *testing.T) {
	t.Setenv("TEST_NATS_URL", "nats://user:secret@nats:4222")
	body, err := os.ReadFile("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	core, attempts := "", uint8(3)
	emitAll := config.EmitWhen{Noop: true}
	want := &config.Config{
		Path:       "config.yaml",
		Cluster:    "prod-eu1",
		Kubernetes: config.Kubernetes{Kubeconfig: "/etc/informd/kubeconfig", Context: "prod", MaxWatches: 3000, AuditEvery: 20 * time.Minute, MaxDelay: 20 * time.Millisecond},
		Resources: []config.Resource{
			{
				Pos: config.Pos{Line: 6, Col: 5}, Group: "apps", Version: "v1", Resource: "deployments", Mode: config.ModeMetadata,
				Namespaces: []string{"shop", "bank"}, ExcludeNamespaces: []string{}, Scope: config.ScopeNamespaced, EmitWhen: emitAll, LabelSelector: "app in (web,api),!canary", FieldSelector: "metadata.name!=old",
			},
			{Pos: config.Pos{Line: 16, Col: 5}, Resource: "pods", Mode: config.ModeFull, Scope: config.ScopeAuto, EmitWhen: emitAll},
			{
				Pos: config.Pos{Line: 18, Col: 5}, Resource: "secrets", Mode: config.ModeFull, Scope: config.ScopeCluster,
				Namespaces: []string{"team-?*"}, ExcludeNamespaces: []string{"*-test"}, NamespaceSelector: "tier=prod",
				EmitWhen: config.EmitWhen{Changed: []string{"metadata", "data.*"}}, FieldManager: true, OwnerChain: true, Changes: config.OneOrMore{"patch"},
			},
			{
				Pos: config.Pos{Line: 19, Col: 5}, Group: "stable.example.com", Resource: "crontabs", Mode: config.ModeFull, Scope: config.ScopeAuto, EmitWhen: emitAll, ResnapshotEvery: 90 * time.Minute,
				Keep: []string{"metadata.labels", "spec.jobs[].*"}, Omit: []string{`metadata.labels["example.com/build"]`},
				Redact: []string{"spec.token", "/(?i)AKIA[0-9A-Z]{16}/"}, Changes: config.OneOrMore{"oldObject", "changed"},
			},
		},
		Journal: journalOf("memory", "/data", sink.GiB),
		Sinks: []config.Sink{
			{
				Pos: config.Pos{Line: 28, Col: 5}, Name: "out", Type: "stdout", Start: config.StartNow,
				Driver:  sink.Driver{Type: "stdout", Lanes: 1},
				Options: &stdoutOptions{Format: "pretty"},
			},
			{
				Pos: config.Pos{Line: 29, Col: 5}, Name: "arch", Type: "file", Start: config.StartSnapshot,
				Driver:  sink.Driver{Type: "file", Lanes: 1},
				Options: &fileOptions{Path: "/var/log/informd/events.ndjson", MaxBytes: sink.MiB, MaxFiles: 3},
			},
			{
				Pos: config.Pos{Line: 35, Col: 5}, Name: "bus", Type: "nats", Start: config.StartSnapshot,
				Driver: sink.Driver{Type: "nats", Lanes: 1, Remote: true},
				Options: &natsOptions{
					Servers: connection.NewServers("nats://user:secret@nats:4222"), JetStream: true, SubjectPrefix: "events",
					TLS: tlsOptions{CAFile: "/ca.pem"},
				},
			},
			{
				Pos: config.Pos{Line: 40, Col: 5}, Name: "hook", Type: "webhook", Start: config.StartSnapshot,
				Driver: sink.Driver{Type: "webhook", Lanes: 8, Remote: true},
				Options: &webhookOptions{
					retryOptions: retryOptions{Attempts: &attempts},
					URL:          "https://example.com/k8s",
					Headers:      map[string]sink.Secret{"X-Number": sink.NewSecret("0123"), "X-Text": sink.NewSecret("a b")},
					Timeout:      90 * time.Second,
					Batch:        16,
					Ratio:        0.5,
					Codes:        []int{200, 404},
				},
				Match: []config.Match{
					{Group: &core, Resource: "pods", Namespaces: []string{"shop"}, Ops: []string{"added"}, Control: config.Control{}, Condition: "has(object.spec)\n", OnConditionError: config.OnConditionErrorDrop},
					{Control: config.Control{"begin", "synced", "gap"}, OnConditionError: config.OnConditionErrorDeliver},
					{Ops: []string{"added", "deleted"}, Control: config.Control{"gap", "state"}, OnConditionError: config.OnConditionErrorDeliver},
				},
			},
		},
		Redaction: config.Redaction{KeyFile: "/key"},
		Admin:     config.Admin{Socket: "/data/admin.sock", TLS: config.AdminTLS{CertFile: "/tls.crt", KeyFile: "/tls.key", ClientCAFile: "/ca.crt"}},
		Replicas:  config.Replicas{Duration: config.DefaultLeaseDuration},
		Log:       config.Log{Level: "debug", Format: "json"},
	}
	if diff := compare(want, mustParse(t, string(body))); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// journalOf is a journal with the defaults of the rest.
func journalOf(kind, dir string, bytes sink.ByteSize) config.Journal {
	return config.Journal{
		Type: kind, Dir: dir, DirSet: !strings.HasPrefix(dir, "/var"), MaxBytes: bytes, Sync: "rows",
		HistoryPerObject: 16, DeletedRetention: 168 * time.Hour,
	}
}

// Every key of a journal works, away from its default.
func TestGoodJournals(t *testing.T) {
	base := "cluster: c\nresources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\n"
	log := journalOf("log", "/data", 10*1024*sink.MiB)
	log.Sync, log.HistoryPerObject, log.DeletedRetention = "always", 3, time.Hour
	memory := journalOf("memory", "/data", 64*sink.MiB)
	memory.HistoryPerObject = 3
	for text, want := range map[string]config.Journal{
		"{type: log, dir: /data, sync: always, historyPerObject: 3, deletedRetention: 1h}": log,
		"{type: memory, historyPerObject: 3, dir: /data}":                                  memory,
	} {
		if diff := compare(want, mustParse(t, base+"journal: "+text+"\n").Journal); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "/var/lib/private/informd:/var/lib/other")
	got := mustParse(t, "resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\n")
	want := &config.Config{
		Path:       "config.yaml",
		Cluster:    "default",
		Kubernetes: config.Kubernetes{MaxWatches: 10_000, AuditEvery: time.Hour, MaxDelay: 50 * time.Millisecond},
		Resources:  []config.Resource{{Pos: config.Pos{Line: 1, Col: 13}, Resource: "pods", Mode: "full", Scope: "auto", EmitWhen: config.EmitWhen{Noop: true}}},
		Journal:    journalOf("log", "/var/lib/private/informd", 10*sink.GiB),
		Sinks: []config.Sink{{
			Pos: config.Pos{Line: 2, Col: 9}, Name: "out", Type: "stdout", Start: "snapshot",
			Driver: sink.Driver{Type: "stdout", Lanes: 1}, Options: &stdoutOptions{Format: "cloudevents"},
		}},
		Admin:    config.Admin{Listen: "127.0.0.1:8080", Socket: "/var/lib/private/informd/admin.sock"},
		Replicas: config.Replicas{Duration: config.DefaultLeaseDuration},
		Log:      config.Log{Level: "info", Format: "text"},
	}
	if diff := compare(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}

	t.Setenv("STATE_DIRECTORY", "")
	got = mustParse(t, "resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\njournal:\n")
	if got.Journal.Dir != "/var/lib/informd" {
		t.Errorf("journal.dir = %q without $STATE_DIRECTORY", got.Journal.Dir)
	}
}

// Whatever YAML offers to write one thing in another way means the same.
func TestSameInOtherWords(t *testing.T) {
	const plain = `
cluster: c
resources:
  - {resource: pods, mode: metadata, namespaces: [shop, bank], emitWhen: {changed: [metadata.labels]}}
  - {resource: secrets, mode: metadata, namespaces: [shop, bank], labelSelector: a=b, emitWhen: {changed: [metadata.labels]}}
sinks:
  - {name: a, type: nats, servers: x, subjectPrefix: "12", jetstream: true, match: [{changed: [metadata.labels]}]}
  - {name: b, type: nats, servers: y, subjectPrefix: "12", jetstream: true, match: [{changed: [metadata.labels]}]}
`
	tests := map[string]string{
		"CRLF":       replace(plain, "\n", "\r\n"),
		"CR":         replace(plain, "\n", "\r"),
		"BOM":        "\ufeff" + plain,
		"directive":  "%YAML 1.2\n---" + plain + "...\n",
		"with JSON":  replace(plain, "a=b", `"a=b"`, "servers: x", `"servers": ["x"]`),
		"complex ?":  replace(plain, "cluster: c", "? cluster\n: c"),
		"with nulls": plain + "journal:\nlog: ~\nadmin: {listen: null}\n",
		"no lists":   replace(plain, "[metadata.labels]", "metadata.labels"),
		"anchors": `
&k cluster: &c c
resources:
  - &one {resource: pods, mode: &m metadata, namespaces: &ns [shop, bank], emitWhen: {changed: &ch [metadata.labels]}}
  - {<<: *one, resource: secrets, labelSelector: a=b}
sinks:
  - &bus {name: a, type: nats, servers: x, subjectPrefix: "12", jetstream: true, match: [{changed: *ch}]}
  - <<: [{servers: y}, *bus]
    name: b
`,
	}
	want := mustParse(t, plain)
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			got := mustParse(t, body)
			if diff := compare(want, got, cmpopts.IgnoreTypes(config.Pos{})); diff != "" {
				t.Errorf("config (-plain +got):\n%s", diff)
			}
		})
	}
}

func replace(s string, oldnew ...string) string { return strings.NewReplacer(oldnew...).Replace(s) }

// The example at the root of the repository is a short config to start with. It is valid
// for the sinks that informd is built with, and needs no environment.
func TestExample(t *testing.T) {
	const file = "../../config.example.yaml"
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := configfile.Parse(file, body, drivers.All()); err != nil {
		t.Fatalf("Parse:\n%v", err)
	}
	if lines := strings.Count(string(body), "\n"); lines > 25 {
		t.Errorf("the example has %d lines, want 25 or fewer: docs/configuration.md has all keys", lines)
	}
}
