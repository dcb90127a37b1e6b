package config

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/natsconn"
	"github.com/informd/informd/pkg/sink"
)

// The values of [Journal.Type].
const (
	JournalMemory   = "memory"
	JournalEmbedded = "embedded"
	JournalNATS     = "nats"
)

// Journal describes the log between watching and delivering.
type Journal struct {
	// Type is [JournalMemory], [JournalEmbedded] or [JournalNATS].
	Type string `yaml:"type" enum:"memory,embedded,nats"`
	// Dir is where the embedded journal lives, the key of the hashes of Secrets
	// and, with a memory journal, the dead letters. Default: $STATE_DIRECTORY,
	// which systemd sets, else /var/lib/informd.
	Dir string `yaml:"dir"`
	// MaxBytes bounds the log: in memory the events as event.Event.Size counts
	// them, else the stream on the disk.
	MaxBytes sink.ByteSize `yaml:"maxBytes"`

	// Listen is where the embedded journal serves NATS clients of this machine;
	// empty for nowhere.
	Listen string `yaml:"listen"`
	// SyncAlways has the embedded journal write through to the disk before an
	// event counts as kept, so that it survives a loss of power, too.
	SyncAlways bool `yaml:"syncAlways"`

	// Where the user's own JetStream is and how to log in there.
	natsconn.Config `yaml:",inline"`

	// Replicas is how many copies the streams have that are created there; 0 is 1.
	Replicas int `yaml:"replicas"`

	// Stream is the name of the stream with the events, and the beginning of the
	// others' names. SubjectPrefix is what the subjects of the events begin with.
	Stream        string `yaml:"stream"`
	SubjectPrefix string `yaml:"subjectPrefix"`
	// HistoryPerObject is how many events of each object are kept, the last ones.
	HistoryPerObject int `yaml:"historyPerObject"`
	// TombstoneTTL is how long the deletion of an object is kept.
	TombstoneTTL time.Duration `yaml:"tombstoneTTL"`

	// Forgotten is set by [ForgetJournal].
	Forgotten bool `yaml:"-"`
}

const (
	defaultMemoryBytes  = 8 * sink.MiB
	defaultStreamBytes  = 10 * 1024 * sink.MiB
	defaultStream       = "INFORMD"
	defaultPrefix       = "k8s"
	defaultHistory      = 16
	defaultTombstoneTTL = 168 * time.Hour
	maxReplicas         = 5 // JetStream's own limit
)

func defaultJournal() Journal {
	return Journal{
		Type: JournalEmbedded, Dir: stateDir(), Stream: defaultStream, SubjectPrefix: defaultPrefix,
		HistoryPerObject: defaultHistory, TombstoneTTL: defaultTombstoneTTL,
	}
}

// ForgetJournal makes the config one with a memory journal of the default size,
// for a run that has no past and no future.
func ForgetJournal(c *Config) {
	c.Journal.Type, c.Journal.MaxBytes, c.Journal.Forgotten = JournalMemory, defaultMemoryBytes, true
}

// journalKeys are the keys that only some types of journal have.
func journalKeys() map[string][]string {
	connection := []string{JournalNATS}
	stream := []string{JournalEmbedded, JournalNATS}
	return map[string][]string{
		"listen": {JournalEmbedded}, "syncAlways": {JournalEmbedded},
		"url": connection, "credsFile": connection, "nkeyFile": connection, "tokenFile": connection,
		"tls": connection, "allowPlaintext": connection, "replicas": connection,
		"stream": stream, "subjectPrefix": stream, "historyPerObject": stream, "tombstoneTTL": stream,
	}
}

func (r *reading) checkJournal(c *Config) {
	if r.bad("journal.type") {
		return // which of the keys count is not known
	}
	j := &c.Journal
	for _, key := range slices.Sorted(maps.Keys(journalKeys())) {
		if types := journalKeys()[key]; r.given("journal."+key) && !slices.Contains(types, j.Type) {
			r.fail("journal."+key, "is about a journal of type %s, and this one is of type %s: remove the key, or set type", strings.Join(types, " or "), j.Type)
		}
	}
	if j.Dir == "" && !r.bad("journal.dir") {
		r.fail("journal.dir", "is empty: name a directory, or remove the key for %s", stateDir())
	}
	r.checkJournalBytes(j)
	if j.Type == JournalMemory {
		return
	}
	r.checkStream(j)
	if j.Type == JournalEmbedded && j.Listen != "" && !r.bad("journal.listen") {
		r.checkJournalListen(j.Listen)
	}
	if j.Type == JournalNATS {
		r.checkJournalConnection(c)
	}
}

// checkJournalBytes also fills in the default, which depends on the type.
func (r *reading) checkJournalBytes(j *Journal) {
	switch {
	case r.bad("journal.maxBytes"):
	case !r.given("journal.maxBytes") && j.Type == JournalMemory:
		j.MaxBytes = defaultMemoryBytes
	case !r.given("journal.maxBytes"):
		j.MaxBytes = defaultStreamBytes
	case j.MaxBytes <= 0:
		r.fail("journal.maxBytes", "must be more than 0: it is the room between the watches and the slowest sink, as in 16MiB")
	}
}

func (r *reading) checkStream(j *Journal) {
	if badStreamName(j.Stream) && !r.bad("journal.stream") {
		r.fail("journal.stream", "%s is not a stream name: letters, digits, '-' and '_', as in INFORMD", quote(j.Stream))
	}
	if err := event.ValidatePrefix(j.SubjectPrefix); err != nil && !r.bad("journal.subjectPrefix") {
		r.fail("journal.subjectPrefix", "%v", err)
	}
	if j.HistoryPerObject < 1 && !r.bad("journal.historyPerObject") {
		r.fail("journal.historyPerObject", "must be at least 1: the last event of each object is the ledger")
	}
	if j.TombstoneTTL <= 0 && !r.bad("journal.tombstoneTTL") {
		r.fail("journal.tombstoneTTL", "must be more than 0: it is how long a consumer may be away and still learn of a deletion, as in 168h")
	}
}

func badStreamName(name string) bool {
	return name == "" || strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// checkJournalListen permits this machine only: the embedded journal is no server
// for others, and has no passwords.
func (r *reading) checkJournalListen(address string) {
	if _, _, err := net.SplitHostPort(address); err != nil || !local(address) {
		r.fail("journal.listen", `%s is not an address of this machine alone, as in 127.0.0.1:4222: for clients elsewhere use a nats sink, or journal.type: nats`, quote(address))
	}
}

// checkJournalConnection checks what a journal in the user's own JetStream needs.
func (r *reading) checkJournalConnection(c *Config) {
	j := &c.Journal
	for _, p := range j.Config.Validate() {
		path := strings.TrimSuffix("journal."+p.Key, ".")
		if p.Key == "" || !r.bad(path) {
			r.add(r.place(path), path, "%s", p.Message)
		}
	}
	if (j.Replicas < 0 || j.Replicas > maxReplicas) && !r.bad("journal.replicas") {
		r.fail("journal.replicas", "must be between 1 and %d", maxReplicas)
	}
	if c.Redaction.KeyFile != "" || r.bad("redaction.keyFile") {
		return
	}
	hashed := ""
	switch {
	case slices.ContainsFunc(c.Resources, func(one Resource) bool { return one.mayBe(new(string), "secrets") }):
		hashed = "Secrets"
	case slices.ContainsFunc(c.Resources, func(one Resource) bool { return len(one.Redact) > 0 }):
		hashed = "redacted objects"
	default:
		return
	}
	r.add(r.place("journal.type"), "redaction.keyFile",
		"is required where %s go into a nats journal: whoever takes over must hash their values with the same key (head -c 32 /dev/urandom | base64)", hashed)
}

// publisher is implemented by options of sinks that publish to NATS servers
// subjects that begin with a prefix.
type publisher interface {
	Publishes() (servers []string, prefix string)
}

// checkOverlap refuses a nats sink that would write the journal's own subjects:
// the journal would take its messages for a late writer's.
func (r *reading) checkOverlap(c *Config) {
	var journal []string
	switch {
	case c.Journal.Type == JournalNATS:
		journal = hosts(strings.Split(c.Journal.URL.Reveal(), ","))
	case c.Journal.Type == JournalEmbedded && c.Journal.Listen != "":
		journal = hosts([]string{"nats://" + c.Journal.Listen})
	}
	for i, s := range c.Sinks {
		p, ok := s.Options.(publisher)
		if !ok {
			continue
		}
		servers, prefix := p.Publishes()
		same := slices.ContainsFunc(hosts(servers), func(host string) bool { return slices.Contains(journal, host) })
		if path := index("sinks", i); same && overlap(prefix, c.Journal.SubjectPrefix) && !r.bad(path+".url") {
			r.fail(path, "its subjects (%s.>) overlap the journal's (%s.>) on the same server: remove the sink and subscribe to the stream %s, or give it another subjectPrefix",
				prefix, c.Journal.SubjectPrefix, c.Journal.Stream)
		}
	}
}

// overlap reports whether subjects can begin with both prefixes.
func overlap(a, b string) bool {
	return strings.HasPrefix(a+".", b+".") || strings.HasPrefix(b+".", a+".")
}

// hosts returns the servers' addresses in one form.
func hosts(servers []string) []string {
	const port = "4222"
	var all []string
	for _, server := range servers {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil || u.Hostname() == "" {
			continue
		}
		host := u.Hostname()
		if host == "localhost" {
			host = "127.0.0.1"
		}
		at := u.Port()
		if at == "" {
			at = port
		}
		all = append(all, net.JoinHostPort(host, at))
	}
	return all
}
