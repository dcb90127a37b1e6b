// Package config has the settings of informd, their defaults, and the differences between two
// configs. Package configfile reads and checks them.
package config

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/informd/informd/internal/when"
	"github.com/informd/informd/pkg/sink"
)

// Config has every setting. A Config that configfile.Parse or configfile.Load returns has passed every check
// and has its defaults filled in. It is never changed later. It may be printed: secrets
// are hidden.
//
// The yaml tags name the keys. A required tag marks keys that must be there. An enum tag lists the values a string may have.
// An absent tag marks a list that means everything if its key is absent, and says so. An
// empty list is an error: it would select everything after its last item was removed.
type Config struct {
	// Path is the file it was read from, and Sum a hash of what was in it.
	Path string   `yaml:"-"`
	Sum  [32]byte `yaml:"-"`
	// Warnings lists settings that are allowed and probably not intended.
	Warnings Errors `yaml:"-"`
	// Cluster is the name of the cluster, in every event and subject. It is required with a
	// nats, kafka, otlp, postgres or webhook sink. Otherwise the default is "default".
	Cluster    string     `yaml:"cluster"`
	Kubernetes Kubernetes `yaml:"kubernetes"`
	// Resources lists what informd watches: an entry for each resource or wildcard. There is
	// at least one entry, and no two entries name the same resource.
	Resources []Resource `yaml:"resources" required:""`
	Journal   Journal    `yaml:"journal"`
	Replicas  Replicas   `yaml:"replicas"`
	// Sinks lists the destinations of events. There is at least one entry. Each sink has its
	// own cursor in the journal and its own retries.
	Sinks     []Sink    `yaml:"sinks" required:""`
	Redaction Redaction `yaml:"redaction"`
	Admin     Admin     `yaml:"admin"`
	Log       Log       `yaml:"log"`

	// Places are the positions of the values in the file, by key path.
	Places map[string]Pos
}

// Kubernetes names the API server that informd watches. Default: in a Pod, its own API
// server; elsewhere the current context of $KUBECONFIG or ~/.kube/config.
type Kubernetes struct {
	// Kubeconfig is the kubeconfig file. When the credentials in it change, informd starts again
	// with them by itself; with a memory journal, it needs a restart.
	Kubeconfig string `yaml:"kubeconfig"`
	// Context is the context in the kubeconfig. Default: its current context.
	Context string `yaml:"context"`
	// MaxWatches is the limit of watches. Entries without a wildcard are always watched;
	// resources that wildcards match are watched up to the limit.
	MaxWatches int `yaml:"maxWatches"`
	// AuditEvery is the period in which informd compares each resource with the cluster; 0
	// is never.
	AuditEvery time.Duration `yaml:"auditEvery"`
	// MaxDelay is how long an event waits for others, at most 1s: events that arrive together
	// cost less CPU. An event after a pause does not wait. 0 is not at all.
	MaxDelay time.Duration `yaml:"maxDelay"`
}

// The values of [Resource.Scope].
const (
	ScopeAuto       = "auto"
	ScopeCluster    = "cluster"
	ScopeNamespaced = "namespaced"
)

// The values of [Resource.Mode].
const (
	ModeFull     = "full"
	ModeMetadata = "metadata"
)

// The values of [Resource.Changes].
const (
	ChangesChanged   = "changed"
	ChangesPatch     = "patch"
	ChangesOldObject = "oldObject"
)

// The values of [Sink.Start].
const (
	StartSnapshot = "snapshot"
	StartNow      = "now"
)

// SourceName is the name of the dead letters of what the API server sent, which
// no sink may have.
const SourceName = "source"

// Sink is one entry of sinks.
type Sink struct {
	// Pos is where the entry begins.
	Pos Pos `yaml:"-"`
	// Name is a DNS label. The cursor and the metrics of the sink belong to it.
	Name string `yaml:"name" required:""`
	// Type is the sink type. It decides which other keys the entry takes.
	Type string `yaml:"type" required:""`
	// Match lists which events the sink gets: those that at least one of the entries
	// matches. Without it the sink gets every event.
	Match []Match `yaml:"match" absent:"everything"`
	// Start is [StartSnapshot], which delivers all existing objects first, or [StartNow],
	// which delivers later events only.
	Start string `yaml:"start" enum:"snapshot,now"`

	Driver sink.Driver `yaml:"-"`
	// Options are the sink type's own keys, decoded over Driver.New's values
	// and validated.
	Options sink.Config `yaml:"-"`
}

// Match is one entry of a sink's match. It matches an event if all of its keys do.
type Match struct {
	// Group is the API group; empty or "core" for the core group. Default: any group.
	Group *string `yaml:"group"`
	// Resource is the plural name. Default: any resource.
	Resource string `yaml:"resource"`
	// Namespaces are names and globs. Cluster-scoped objects are in none of them.
	Namespaces []string `yaml:"namespaces" absent:"all namespaces"`
	// Ops lists the operations of object events: snapshot, added, modified, deleted, left,
	// entered. Events of other operations do not match. Default: all.
	Ops []string `yaml:"ops" absent:"all operations"`
	// Control is true for the control events begin, synced and gap, false for none, or a list
	// of begin, synced, gap and state. Default: true. Begin matches only together with
	// snapshot, added and synced.
	Control Control `yaml:"control" enum:"begin,synced,gap,state" absent:"begin, synced and gap"`
	// Changed lists paths, or spec, status and metadata: a modified event matches only if
	// one of them has changed since the object's event before. Other operations ignore it.
	Changed OneOrMore `yaml:"changed" absent:"every change"`
	// Condition is a CEL expression with the variables object, oldObject, op and event.
	// Deletions, left and control events ignore it.
	Condition string `yaml:"condition"`
	// When is Condition, compiled; nil for none. Filters are the ids of Changed.
	When    *when.Expression `yaml:"-"`
	Filters []uint64         `yaml:"-"`
	// OnConditionError says what happens to an event for which Condition fails:
	// [OnConditionErrorDeliver] or [OnConditionErrorDrop].
	OnConditionError string `yaml:"onConditionError" enum:"deliver,drop"`
}

// The values of [Match.OnConditionError].
const (
	OnConditionErrorDeliver = "deliver"
	OnConditionErrorDrop    = "drop"
)

// Redaction configures the keyed hash that replaces the values of Secrets, of their
// annotations, and of the paths in redact.
type Redaction struct {
	// KeyFile holds the key of the hash, at least 32 bytes. Default: informd creates a key in
	// journal.dir; with a memory journal, a new key for every process.
	KeyFile string `yaml:"keyFile"`
	// PlainAnnotations lists annotations of Secrets whose values stay: names, or prefixes
	// with a * at the end. Harmless annotations of well-known tools stay in any case.
	PlainAnnotations []string `yaml:"plainAnnotations"`
}

// Admin is the HTTP server for health, metrics, status and commands.
type Admin struct {
	// Listen is host:port, for health, metrics and status; "" turns it off.
	Listen string `yaml:"listen"`
	// Socket is the path of the unix socket for commands, mode 0600; "" turns it off.
	// Default: admin.sock in journal.dir.
	Socket string `yaml:"socket"`
	// TokenFile holds the token of commands at Listen, 16 characters or more. Default:
	// informd refuses commands there.
	TokenFile string `yaml:"tokenFile"`
	// Hosts lists DNS names that requests at Listen may have in their Host header without
	// TLS. IP addresses, names without a dot, and names in .svc, .local and .internal are
	// always allowed.
	Hosts []string `yaml:"hosts"`

	// TLS encrypts Listen. informd uses new files without a restart.
	TLS AdminTLS `yaml:"tls"`
	// AllowHTTP permits Listen to serve other machines without TLS. It permits a token there,
	// and turns off the warning.
	AllowHTTP bool `yaml:"allowHTTP"`
}

// DefaultSocket reports whether admin.socket is where it is by default.
func (c *Config) DefaultSocket() bool {
	return c.Admin.Socket == filepath.Join(c.Journal.Dir, SocketName)
}

// AdminTLS names the files of admin.tls.
type AdminTLS struct {
	// CertFile holds the server's certificate, followed by the intermediate certificates.
	CertFile string `yaml:"certFile"`
	// KeyFile holds the key of CertFile.
	KeyFile string `yaml:"keyFile"`
	// ClientCAFile holds the authorities that must have signed the certificate of a client.
	// Default: clients need no certificate.
	ClientCAFile string `yaml:"clientCAFile"`
}

// Log configures informd's own log.
type Log struct {
	// Level is the lowest level that informd logs.
	Level string `yaml:"level" enum:"debug,info,warn,error"`
	// Format is the form of a line: text for people, json for machines.
	Format string `yaml:"format" enum:"text,json"`
}

// Defaults of keys, and names of files.
const (
	DefaultCluster  = "default"
	defaultStateDir = "/var/lib/informd"
	defaultListen   = "127.0.0.1:8080"
	// SocketName is the socket for commands in journal.dir, if admin.socket is not set.
	SocketName = "admin.sock"
	// defaultMaxWatches covers platforms with thousands of CustomResourceDefinitions. It is the value of
	// dynwatch.DefaultMaxWatches, which a test of package daemon compares: package tail uses this
	// package, and must not depend on dynwatch.
	defaultMaxWatches = 10_000
	// defaultMaxDelay is far below what people notice; more saves little.
	defaultMaxDelay = 50 * time.Millisecond
)

// Defaults is what holds where the file, the flags and the environment are
// silent. The cluster is missing: its default depends on the sinks.
func Defaults() *Config {
	return &Config{
		Kubernetes: Kubernetes{MaxWatches: defaultMaxWatches, AuditEvery: time.Hour, MaxDelay: defaultMaxDelay},
		Journal: Journal{
			Type: JournalLog, Dir: StateDir(), Sync: "rows", HistoryPerObject: defaultHistory, DeletedRetention: defaultDeletedRetention,
		},
		Replicas: Replicas{Duration: DefaultLeaseDuration},
		Admin:    Admin{Listen: defaultListen},
		Log:      Log{Level: "info", Format: "text"},
	}
}

// Begin is called before an entry of sinks is decoded.
func (s *Sink) Begin(at Pos) { *s = Sink{Pos: at, Start: StartSnapshot} }

// Begin is called before an entry of a sink's match is decoded.
func (m *Match) Begin(Pos) {
	*m = Match{Control: DefaultControl(), OnConditionError: OnConditionErrorDeliver}
}

// StateDir is the first directory of $STATE_DIRECTORY: systemd joins several
// with colons.
func StateDir() string {
	if first, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); first != "" {
		return first
	}
	return defaultStateDir
}
