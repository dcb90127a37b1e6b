package configfile

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/config/document"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

func (r *checker) checkJournal(c *config.Config) {
	if r.Bad("journal.type") {
		return // which of the keys count is not known
	}
	j := &c.Journal
	for _, key := range slices.Sorted(maps.Keys(config.JournalKeys())) {
		if types := config.JournalKeys()[key]; r.given("journal."+key) && !slices.Contains(types, j.Type) {
			r.fail("journal."+key, "is a key of journals of type %s, and this one is of type %s: remove the key, or set type", strings.Join(types, " or "), j.Type)
		}
	}
	r.refuse(j.Dir == "", "journal.dir", "is empty: name a directory, or remove the key for %s", config.StateDir())
	j.DirSet = r.given("journal.dir")
	r.checkJournalBytes(j)
	r.refuse(j.HistoryPerObject < 1, "journal.historyPerObject", "must be at least 1: informd needs the last event of each object")
	r.refuse(j.DeletedRetention <= 0, "journal.deletedRetention", "must be more than 0: it is how long a consumer may be away and still get a deletion, as in 168h")
	if j.Type == config.JournalNATS {
		r.checkStream(j)
		r.checkJournalConnection(c)
	}
}

// checkJournalBytes also fills in the default, which depends on the type.
func (r *checker) checkJournalBytes(j *config.Journal) {
	switch {
	case r.Bad("journal.maxBytes"):
	case !r.given("journal.maxBytes") && j.Type == config.JournalMemory:
		j.MaxBytes = config.DefaultMemoryBytes
	case !r.given("journal.maxBytes"):
		j.MaxBytes = config.DefaultBytes
	case j.MaxBytes < sink.MiB:
		r.fail("journal.maxBytes", "must be at least 1MiB: it is the capacity for events that the slowest sink has not read, as in 64MiB")
	}
}

func (r *checker) checkStream(j *config.Journal) {
	r.refuse(badStreamName(j.Stream), "journal.stream", "%s is not a stream name: letters, digits, '-' and '_', as in INFORMD", document.Quote(j.Stream))
	err := event.ValidatePrefix(j.SubjectPrefix)
	r.refuse(err != nil, "journal.subjectPrefix", "%v", err)
}

func badStreamName(name string) bool {
	return name == "" || strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// checkJournalConnection checks what a journal in the user's own JetStream needs.
func (r *checker) checkJournalConnection(c *config.Config) {
	j := &c.Journal
	var found []func() // reported at the end: several may be about one key
	for _, p := range j.Config.Validate() {
		path, message := r.source(strings.TrimSuffix("journal."+p.Key, "."), p.Message)
		if p.Key == "" || !r.Bad(path) {
			found = append(found, func() { r.fail(path, "%s", message) })
		}
	}
	for _, report := range found {
		report()
	}
	r.refuse(j.Replicas < 0 || j.Replicas > config.MaxReplicas, "journal.replicas", "must be between 1 and %d", config.MaxReplicas)
	if c.Redaction.KeyFile != "" || r.Bad("redaction.keyFile") {
		return
	}
	hashed := ""
	switch {
	case slices.ContainsFunc(c.Resources, func(one config.Resource) bool { return one.MayBe(new(string), "secrets") }):
		hashed = "Secrets"
	case slices.ContainsFunc(c.Resources, func(one config.Resource) bool { return len(one.Redact) > 0 }):
		hashed = "redacted objects"
	default:
		return
	}
	r.Add(r.place("journal.type"), "redaction.keyFile",
		"is required where %s go into a nats journal: each informd that uses it must hash their values with the same key (head -c 32 /dev/urandom | base64)", hashed)
}

// publisher is implemented by options of sinks that publish on NATS servers, on
// subjects that begin with a prefix.
type publisher interface {
	Publishes() (servers []string, prefix string)
}

// checkOverlap refuses a nats sink that would publish on the journal's own subjects:
// the journal would take its messages for those of another writer.
func (r *checker) checkOverlap(c *config.Config) {
	if c.Journal.Type != config.JournalNATS {
		return
	}
	journal := hosts(c.Journal.Servers.Reveal())
	for i, s := range c.Sinks {
		p, ok := s.Options.(publisher)
		if !ok {
			continue
		}
		servers, prefix := p.Publishes()
		same := slices.ContainsFunc(hosts(servers), func(host string) bool { return slices.Contains(journal, host) })
		path := document.Index("sinks", i)
		if !overlap(prefix, c.Journal.SubjectPrefix) || r.Bad(path+".servers") {
			continue
		}
		// Other names may lead to the journal's server, too: then informd would take its own
		// messages for new events. Only a prefix on purpose says that they do not.
		if !same && !r.given(path+".subjectPrefix") {
			r.fail(path, "publishes on subjects of the journal if both use one NATS system: both have %s.>; set subjectPrefix of the sink", prefix)
		}
		if same {
			r.fail(path+".subjectPrefix", "publishes on subjects of the journal: on the same server the sink has %s.> and the journal %s.>; set another subjectPrefix, or remove the sink and read the journal's stream %s",
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
		u, err := url.Parse(server)
		if err != nil || u.Hostname() == "" {
			continue
		}
		host := u.Hostname()
		if host == "localhost" {
			host = "127.0.0.1"
		}
		all = append(all, net.JoinHostPort(host, cmp.Or(u.Port(), port)))
	}
	return all
}
