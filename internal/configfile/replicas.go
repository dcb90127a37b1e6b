package configfile

import (
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/internal/config"
)

const minLease, maxLease = 2 * time.Second, time.Minute

// checkReplicas also fills in the default of the address, which depends on admin.listen.
func (r *checker) checkReplicas(c *config.Config) {
	p := &c.Replicas
	if !p.Wanted() {
		for _, key := range []string{"namespace", "duration", "address"} {
			r.refuse(r.given("replicas."+key) && !r.Bad("replicas.lease"), "replicas."+key, "needs a Lease: set replicas.lease to its name, as in informd")
		}
		return
	}
	r.refuse(len(validation.IsDNS1123Subdomain(p.Lease)) > 0, "replicas.lease", "%s is not the name of a Lease: lower case letters, digits, '-' and '.', as in informd", config.Quote(p.Lease))
	r.refuse(p.Namespace != "" && len(validation.IsDNS1123Label(p.Namespace)) > 0, "replicas.namespace", "%s is not the name of a namespace", config.Quote(p.Namespace))
	r.refuse(p.Duration < minLease || p.Duration > maxLease || p.Duration%time.Second != 0, "replicas.duration", "must be whole seconds between %v and %v, as in 8s", minLease, maxLease)
	r.refuse(c.Journal.Type != config.JournalLog, "journal.type", "must be %s with replicas: the others copy the log in journal.dir", config.JournalLog)
	r.refuse(c.Journal.Sync == "never", "journal.sync", "must be rows or always with replicas: with never, each takeover begins with all objects")
	r.checkReplicaAddress(c)
	r.checkReplicaAccess(c)
	for i, s := range c.Sinks {
		r.refuse(s.Type == "file", config.Index("sinks", i)+".type", "file cannot be used with replicas: the file is on one machine, and after a takeover another informd would write to another file")
	}
	if hashed := redacted(c); hashed != "" && c.Redaction.KeyFile == "" && !r.Bad("redaction.keyFile") {
		r.Add(r.place("replicas.lease"), "redaction.keyFile", "is required with replicas where %s are watched: each of them must hash values with the same key (head -c 32 /dev/urandom | base64)", hashed)
	}
}

// redacted names what is watched and has hashes in the place of values.
func redacted(c *config.Config) string {
	switch {
	case slices.ContainsFunc(c.Resources, func(one config.Resource) bool { return one.MayBe(new(string), "secrets") }):
		return "Secrets"
	case slices.ContainsFunc(c.Resources, func(one config.Resource) bool { return len(one.Redact) > 0 }):
		return "redacted objects"
	default:
		return ""
	}
}

func (r *checker) checkReplicaAddress(c *config.Config) {
	p := &c.Replicas
	if r.Bad("admin.listen") {
		return
	}
	if c.Admin.Listen == "" {
		r.Add(r.place("replicas.lease"), "admin.listen", "is required with replicas: the others copy the log from the admin server")
		return
	}
	host, _, _ := net.SplitHostPort(c.Admin.Listen)
	if ip := net.ParseIP(host); p.Address == "" && host != "" && (ip == nil || !ip.IsUnspecified()) {
		p.Address = c.Admin.Listen
	}
	if p.Address == "" {
		r.Add(r.place("replicas.lease"), "replicas.address", "is required, as admin.listen %s names no host: set host:port at which the others reach this informd, for example with $%s",
			config.Quote(c.Admin.Listen), variable("replicas.address"))
		return
	}
	host, port, err := net.SplitHostPort(p.Address)
	r.refuse(err != nil || host == "" || port == "" || port == "0" || strings.ContainsAny(p.Address, " /,"), "replicas.address", "%s is not host:port, as in informd-0.informd-replicas.informd.svc:8080", config.Quote(p.Address))
}

// checkReplicaAccess: the log has every object, so it does not cross the network for anyone to read.
func (r *checker) checkReplicaAccess(c *config.Config) {
	if local(c.Admin.Listen) || r.Bad("admin.listen") {
		return
	}
	if c.Admin.TokenFile == "" {
		r.Add(r.place("replicas.lease"), "admin.tokenFile", "is required with replicas, as admin.listen %s serves the log to other machines", config.Quote(c.Admin.Listen))
	}
	if c.Admin.TLS.CertFile == "" && !c.Admin.AllowHTTP && c.Admin.TokenFile == "" {
		r.Add(r.place("replicas.lease"), "admin.tls", "is required with replicas, as the log crosses the network; %s", allowHTTP)
	}
}
