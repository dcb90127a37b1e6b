package configfile

import (
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/sink"
)

// check applies the rules that types cannot express. It fills in the one
// default that depends on other values.
func (r *checker) check(c *config.Config) {
	r.checkKubernetes(c.Kubernetes)
	r.checkJournal(c)
	r.checkAdmin(c)
	r.checkRedaction(c.Redaction)
	r.checkResources(c.Resources)
	r.checkSinks(c)
	r.checkCluster(c)
	r.checkReplicas(c)
	r.checkPlaintext(c)
}

func (r *checker) checkKubernetes(k config.Kubernetes) {
	r.refuse(k.MaxWatches < 1, "kubernetes.maxWatches", "%d is no limit of watches: want at least 1", k.MaxWatches)
	r.refuse(k.AuditEvery != 0 && k.AuditEvery < minAudit, "kubernetes.auditEvery", "%v is too short: want at least %v, or 0 for no audits", k.AuditEvery, minAudit)
	r.refuse(k.MaxDelay < 0 || k.MaxDelay > dynwatch.LongestDelay, "kubernetes.maxDelay", "%v is no delay of events: want 0 to %v", k.MaxDelay, dynwatch.LongestDelay)
}

// checkRedaction takes names of annotations, and prefixes of names.
func (r *checker) checkRedaction(c config.Redaction) {
	for i, item := range c.PlainAnnotations {
		if at := strings.IndexByte(item, '*'); item == "" || at >= 0 && at < len(item)-1 {
			r.fail(config.Index("redaction.plainAnnotations", i), `%s is not the name of an annotation; the only * goes at the end, as in "example.com/*"`, config.Quote(item))
		}
	}
}

// checkAdmin also fills in the default of the socket, which depends on journal.dir.
func (r *checker) checkAdmin(c *config.Config) {
	a := &c.Admin
	if a.Listen != "" && !r.Bad("admin.listen") {
		r.checkListen(a.Listen)
	}
	if !r.given("admin.socket") && c.Journal.Dir != "" {
		a.Socket = filepath.Join(c.Journal.Dir, config.SocketName)
	}
	r.checkAdminTLS(a.TLS)
}

// The advice of warnings and errors about data that cross the network without TLS.
const (
	allowHTTP         = "set tls, or allowHTTP: true if only hosts that you trust are on the network"
	allowInsecureAuth = "set tls, or allowInsecureAuth: true if only hosts that you trust are on the network"
)

// checkPlaintext is the one rule for connections to other machines without TLS: a
// password or token there is a mistake, as it is for the sinks, and so is a webhook; other
// data cause a warning. allowInsecureAuth and allowHTTP permit both.
func (r *checker) checkPlaintext(c *config.Config) {
	a := c.Admin
	switch {
	case local(a.Listen), a.TLS.CertFile != "", a.AllowHTTP, r.Bad("admin.listen"):
	case a.TokenFile != "":
		r.fail("admin.tokenFile", "would cross the network without TLS, as admin.listen %s serves other machines, too; %s", config.Quote(a.Listen), allowHTTP)
	default:
		r.Warn(r.place("admin.listen"), "admin.listen", "%s serves status and metrics to all other machines without TLS; %s", config.Quote(a.Listen), allowHTTP)
	}
	for i, s := range c.Sinks {
		e, ok := s.Options.(sink.Exposer)
		if !ok {
			continue
		}
		key, host := e.Exposed()
		if path, _ := r.source(config.Index("sinks", i)+"."+key, ""); host != "" && !r.Bad(path) {
			r.Warn(r.place(path), path, "events cross the network to %s without TLS; %s", config.Quote(host), allowInsecureAuth)
		}
	}
}

// local reports whether host:port is an address of this machine alone, or none.
func local(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return address == "" || connection.Loopback(host)
}

func (r *checker) checkListen(address string) {
	host, port, err := net.SplitHostPort(address)
	_, numberErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil && strings.Count(address, ":") > 1 && !strings.Contains(address, "["):
		r.fail("admin.listen", "%s is not host:port: an IPv6 address goes in brackets, as in [::1]:8080", config.Quote(address))
	case err != nil, numberErr != nil, strings.ContainsAny(host, " /"):
		r.fail("admin.listen", `%s is not host:port with a port of 0 to 65535, as in 127.0.0.1:8080 or :8080 (all addresses); "" turns it off`, config.Quote(address))
	}
}

func (r *checker) checkAdminTLS(t config.AdminTLS) {
	switch {
	case (t.CertFile == "") != (t.KeyFile == ""):
		r.fail("admin.tls", "certFile and keyFile go together; set both or none")
	case t.ClientCAFile != "" && t.CertFile == "":
		r.fail("admin.tls.clientCAFile", "needs a server with TLS; set certFile and keyFile as well")
	}
}

// clusterName keeps the name readable in subjects, in sources of events and in
// file names.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)

// checkCluster checks the name and gives it its default. Where many clusters
// may meet, there is none: two clusters by the name of "default" would mix.
func (r *checker) checkCluster(c *config.Config) {
	if r.Bad("cluster") {
		return
	}
	if c.Cluster != "" {
		if !clusterName.MatchString(c.Cluster) {
			r.fail("cluster", "%s is not a cluster name: up to 128 letters, digits, '.', '_' and '-', with a letter or digit at both ends", config.Quote(c.Cluster))
		}
		return
	}
	for i, s := range c.Sinks {
		if s.Driver.Remote {
			r.Add(r.place(config.Index("sinks", i)+".type"), "cluster",
				"is required by this %s sink: its events distinguish clusters by this name, as in prod-eu1", s.Type)
			return
		}
	}
	c.Cluster = config.DefaultCluster
}

func (r *checker) checkSinks(c *config.Config) {
	if len(c.Sinks) == 0 && !r.Bad("sinks") {
		r.Add(r.place("sinks"), "sinks", "is required: at least one, as in - {name: out, type: stdout}")
	}
	names := map[string]int{}
	for i, s := range c.Sinks {
		path := config.Index("sinks", i)
		r.checkSinkName(s, path+".name", i, names)
		for j := range s.Match {
			r.checkMatch(&s.Match[j], config.Index(path+".match", j), c.Resources)
		}
		r.checkDeletions(s, path, c.Resources)
	}
	r.checkExclusive(c)
}

// checkExclusive refuses two sinks that write to one file: that would stop them for good when
// they run, and in the end all others.
func (r *checker) checkExclusive(c *config.Config) {
	owners := map[string]owner{}
	for i, s := range c.Sinks {
		options, ok := s.Options.(sink.Exclusive)
		if !ok {
			continue
		}
		key, name := options.Exclusive()
		path := config.Index("sinks", i) + "." + key
		if name == "" || r.Bad(path) {
			continue
		}
		if first, taken := owners[name]; taken {
			r.fail(path, "%s is the destination of sinks[%d] already: give each sink its own", config.Quote(name), first.sink)
			continue
		}
		owners[name] = owner{i, path}
	}
	r.checkRotated(c, owners)
}

// owner is the sink that writes to something, and the path of the key that names it.
type owner struct {
	sink int
	path string
}

// rotated is the name of an older file of a file sink, as docs/sinks/file.md describes them.
var rotated = regexp.MustCompile(`^(.+)\.(?:[0-9]+(?:\.(?:gz|zst))?|compressing)$`)

// checkRotated refuses a sink that writes to an older file of a file sink: each rotation would
// move or remove it. Owners are the sinks by the name of what they write to.
func (r *checker) checkRotated(c *config.Config, owners map[string]owner) {
	for name, by := range owners {
		of := rotated.FindStringSubmatch(name)
		if of == nil {
			continue
		}
		if first, taken := owners[of[1]]; taken && c.Sinks[first.sink].Type == "file" {
			r.fail(by.path, "%s is the name of an older file of sinks[%d], which rotates it: choose another one", config.Quote(name), first.sink)
		}
	}
}

func (r *checker) checkSinkName(s config.Sink, path string, i int, names map[string]int) {
	first, taken := names[s.Name]
	switch {
	case r.Bad(path):
	case s.Pos == config.Pos{}: // not a mapping, which is reported
	case s.Name == "":
		r.fail(path, "is required: the journal keeps the cursor of a sink under its name")
	case len(validation.IsDNS1123Label(s.Name)) > 0:
		r.fail(path, "%s is not a name for a sink: up to 63 lower-case letters, digits and '-', with a letter or digit at both ends", config.Quote(s.Name))
	case s.Name == config.SourceName:
		r.fail(path, "%q is reserved for the dead letters of the source", s.Name)
	case taken:
		r.fail(path, "%q is the name of sinks[%d] already", s.Name, first)
	default:
		names[s.Name] = i
	}
}

func (r *checker) checkJournal(c *config.Config) {
	if r.Bad("journal.type") {
		return // which of the keys count is not known
	}
	j := &c.Journal
	r.refuse(r.given("journal.sync") && j.Type != config.JournalLog, "journal.sync",
		"is a key of journals of type %s, and this one is of type %s: remove the key, or set type", config.JournalLog, j.Type)
	r.refuse(j.Dir == "", "journal.dir", "is empty: name a directory, or remove the key for %s", config.StateDir())
	j.DirSet = r.given("journal.dir")
	r.checkJournalBytes(j)
	r.refuse(j.HistoryPerObject < 1, "journal.historyPerObject", "must be at least 1: informd needs the last event of each object")
	r.refuse(j.DeletedRetention <= 0, "journal.deletedRetention", "must be more than 0: it is how long a consumer may be away and still get a deletion, as in 168h")
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
