package config

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/informd/informd/pkg/sink"
)

// Config is everything that can be set. What [Parse] and [Load] return has
// passed every check and has its defaults filled in. Nobody changes it
// afterwards. It may be printed: secrets hide themselves.
//
// The yaml tags name the keys. An enum tag lists the values a string may have.
// An absent tag marks a list that means everything when its key is absent, and says
// so: present but empty, it would let through what somebody has just removed the last
// name of.
type Config struct {
	// Path is the file it was read from, and Sum a hash of what was in it.
	Path string   `yaml:"-"`
	Sum  [32]byte `yaml:"-"`
	// Warnings are about what is allowed, and probably not what is meant.
	Warnings Errors `yaml:"-"`
	// Cluster is in every event and subject.
	Cluster    string     `yaml:"cluster"`
	Kubernetes Kubernetes `yaml:"kubernetes"`
	// Resources has at least one entry, no two of them for one resource.
	Resources []Resource `yaml:"resources"`
	Journal   Journal    `yaml:"journal"`
	// Sinks has at least one entry; their names are unique.
	Sinks     []Sink    `yaml:"sinks"`
	Redaction Redaction `yaml:"redaction"`
	Admin     Admin     `yaml:"admin"`
	Log       Log       `yaml:"log"`

	places map[string]Pos // of what the file says, by key path
}

// Pos is a place in the config file: line and column (in characters) from 1.
type Pos struct{ Line, Col int }

// Kubernetes says which API server to watch, and with how many watches. Kubeconfig and
// Context both empty: the one of the Pod that informd runs in, else what $KUBECONFIG and
// ~/.kube/config say.
type Kubernetes struct {
	// Kubeconfig is the file to use, Context the one of it that is not its current one.
	// New credentials in the file are used without a restart.
	Kubeconfig string `yaml:"kubeconfig"`
	Context    string `yaml:"context"`
	// MaxWatches is the limit of watches. Entries without a wildcard are always watched;
	// resources that wildcards match are watched up to the limit.
	MaxWatches int `yaml:"maxWatches"`
	// AuditEvery is the period in which each resource is compared with the cluster; 0 is
	// never.
	AuditEvery time.Duration `yaml:"auditEvery"`
}

// The values of [Resource.Watch].
const (
	WatchAuto       = "auto"
	WatchCluster    = "cluster"
	WatchNamespaced = "namespaced"
)

// The values of [Resource.Mode].
const (
	ModeFull     = "full"
	ModeMetadata = "metadata"
)

// Resource is one entry of resources.
type Resource struct {
	// Pos is where the entry begins.
	Pos Pos `yaml:"-"`
	// Group is empty for the core group; it may be a glob (path.Match).
	Group string `yaml:"group"`
	// Version is empty for the one that the server prefers, as it is with a glob for
	// a group.
	Version string `yaml:"version"`
	// Resource is the plural name, "deployments", or a glob. With a glob here or in
	// Group the entry is a wildcard, whose resources those are that match and have no
	// entry of their own; the first of several wildcards has what they all match.
	Resource string `yaml:"resource"`
	// ExcludeResources are globs of what a wildcard leaves out: plural names, or
	// "<group or core>/<plural name>".
	ExcludeResources []string `yaml:"excludeResources"`
	// Mode is [ModeFull] or [ModeMetadata].
	Mode string `yaml:"mode" enum:"full,metadata"`
	// Namespaces are names and globs; none means all. ExcludeNamespaces are left out.
	Namespaces        []string `yaml:"namespaces" absent:"all namespaces"`
	ExcludeNamespaces []string `yaml:"excludeNamespaces"`
	// NamespaceSelector is a label selector over the Namespaces, as they are at any
	// time.
	NamespaceSelector string `yaml:"namespaceSelector"`
	// Watch is [WatchCluster], one watch that is filtered here, [WatchNamespaced], one
	// for each namespace, which takes exact names, or [WatchAuto]: what fits.
	Watch string `yaml:"watch" enum:"auto,cluster,namespaced"`
	// LabelSelector and FieldSelector are in the syntax of the API server,
	// which evaluates them.
	LabelSelector string `yaml:"labelSelector"`
	FieldSelector string `yaml:"fieldSelector"`
	// Keep, Omit and Redact are the paths to what objects keep, lose, and have replaced
	// by a hash before they go into events; redact takes /regular expressions/, too.
	Keep   []string `yaml:"keep" absent:"the whole object"`
	Omit   []string `yaml:"omit"`
	Redact []string `yaml:"redact"`
	// OnlyWhenChanged are paths, or spec, status and metadata: a modified event comes
	// only if one of them has changed. With SuppressNoop one in which nothing but
	// resourceVersion and managedFields has changed does not come.
	OnlyWhenChanged []string `yaml:"onlyWhenChanged" absent:"every change"`
	SuppressNoop    bool     `yaml:"suppressNoop"`
	// Actor and Owner have events say who wrote the object last, and the chain of its
	// controllers.
	Actor bool `yaml:"actor"`
	Owner bool `yaml:"owner"`
	// Changes says what a modified event has beside the object of how it has changed:
	// the paths, a JSON patch (RFC 6902), and the object before.
	Changes OneOrMore `yaml:"changes" enum:"paths,patch,old" absent:"the object alone"`
	// Resync is the period in which every object is announced anew; 0 is never.
	Resync time.Duration `yaml:"resync"`
}

// OneOrMore is a list. One item alone may stand without it.
type OneOrMore []string

// The values of [Resource.Changes].
const (
	ChangesPaths = "paths"
	ChangesPatch = "patch"
	ChangesOld   = "old"
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
	// Name is a DNS label.
	Name string `yaml:"name"`
	// Type is the sink type.
	Type string `yaml:"type"`
	// Only lists what the sink wants: events that any of the matches lets
	// through. None means everything.
	Only []Match `yaml:"only" absent:"everything"`
	// Start is [StartSnapshot] or [StartNow].
	Start string `yaml:"start" enum:"snapshot,now"`

	Driver sink.Driver `yaml:"-"`
	// Options are the sink type's own keys, decoded over Driver.New's values
	// and validated.
	Options sink.Config `yaml:"-"`
}

// Match is one entry of a sink's only. What is empty lets everything through.
type Match struct {
	// Group is the API group, empty for the core group; any if there is none.
	Group *string `yaml:"group"`
	// Resource is the plural name; empty for any.
	Resource string `yaml:"resource"`
	// Namespaces are names and globs. Cluster-scoped objects are in none of them.
	Namespaces []string `yaml:"namespaces" absent:"all namespaces"`
	// Ops are operations as event.Op spells them, or with a "!" in front.
	// Plain ones name the wanted operations; deleted, left, gap and synced pass
	// in any case, unless left out by name with "!deleted" and so on.
	Ops []string `yaml:"ops" absent:"all operations"`
	// OnlyWhenChanged is what it is in an entry of resources, for this match alone.
	OnlyWhenChanged []string `yaml:"onlyWhenChanged" absent:"every change"`
	// When is a CEL expression about object, old, op and event. Deleted, left and the
	// control records pass it in any case.
	When string `yaml:"when"`
	// OnError is [OnErrorDeliver] or [OnErrorDrop]: what becomes of an event for which
	// When fails.
	OnError string `yaml:"onError" enum:"deliver,drop"`
}

// The values of [Match.OnError].
const (
	OnErrorDeliver = "deliver"
	OnErrorDrop    = "drop"
)

// Redaction is about the values of Secrets, those of their annotations, and those that an entry of resources says to
// redact: they are replaced by a keyed hash.
type Redaction struct {
	// KeyFile holds the key. Empty: one that is made once and kept in journal.dir;
	// with a memory journal a new one for every process.
	KeyFile string `yaml:"keyFile"`
	// PlainAnnotations are annotations of Secrets whose values stay, beside harmless ones of
	// well-known tools: names, or prefixes with a * behind them.
	PlainAnnotations []string `yaml:"plainAnnotations"`
}

// Admin is the HTTP server for health, metrics, status and the commands.
type Admin struct {
	// Listen is host:port, for health, metrics and status; empty means no listener.
	Listen string `yaml:"listen"`
	// Socket is the path of the unix socket for commands, mode 0600; empty means no
	// socket. Default: admin.sock in the directory of the journal.
	Socket string `yaml:"socket"`
	// TokenFile has the token of commands that ask at Listen; empty refuses such commands.
	TokenFile string `yaml:"tokenFile"`
	// Hosts are DNS names in the Host header of requests at Listen that are allowed, beside
	// names that no public name server has. With TLS every name is allowed.
	Hosts []string `yaml:"hosts"`

	TLS AdminTLS `yaml:"tls"`
	// AllowPlaintext permits Listen to serve other machines without TLS: status and metrics
	// without a warning, and a token.
	AllowPlaintext bool `yaml:"allowPlaintext"`
}

// DefaultSocket reports whether admin.socket is where it is by default.
func (c *Config) DefaultSocket() bool {
	return c.Admin.Socket == filepath.Join(c.Journal.Dir, socketName)
}

// AdminTLS is the encryption of the admin server.
type AdminTLS struct {
	// CertFile is the server's certificate, with those that signed it behind it.
	CertFile string `yaml:"certFile"`
	// KeyFile is the key of that certificate.
	KeyFile string `yaml:"keyFile"`
	// ClientCAFile has the authorities of who may ask; empty is anybody.
	ClientCAFile string `yaml:"clientCAFile"`
}

// Log is informd's own log.
type Log struct {
	// Level is the least severity that is logged, Format how a line is written.
	Level  string `yaml:"level" enum:"debug,info,warn,error"`
	Format string `yaml:"format" enum:"text,json"`
}

const (
	defaultCluster  = "default"
	defaultStateDir = "/var/lib/informd"
	defaultListen   = "127.0.0.1:8080"
	// socketName is the socket for commands in journal.dir, if admin.socket is not set.
	socketName = "admin.sock"
	// defaultMaxWatches covers platforms with thousands of CustomResourceDefinitions.
	defaultMaxWatches = 10_000
	// deadLettersDir is the directory in journal.dir that package deliver writes to.
	deadLettersDir = "deadletters"
)

// defaults is what holds where the file, the flags and the environment are
// silent. The cluster is missing: its default depends on the sinks.
func defaults() *Config {
	return &Config{
		Kubernetes: Kubernetes{MaxWatches: defaultMaxWatches, AuditEvery: time.Hour},
		Journal:    defaultJournal(),
		Admin:      Admin{Listen: defaultListen},
		Log:        Log{Level: "info", Format: "text"},
	}
}

// begin is called before an entry of resources is decoded.
func (r *Resource) begin(at Pos) { *r = Resource{Pos: at, Mode: ModeFull, Watch: WatchAuto} }

// begin is called before an entry of sinks is decoded.
func (s *Sink) begin(at Pos) { *s = Sink{Pos: at, Start: StartSnapshot} }

// begin is called before an entry of a sink's only is decoded.
func (m *Match) begin(Pos) { *m = Match{OnError: OnErrorDeliver} }

// stateDir is the first directory of $STATE_DIRECTORY: systemd joins several
// with colons.
func stateDir() string {
	if first, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); first != "" {
		return first
	}
	return defaultStateDir
}
