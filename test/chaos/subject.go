package chaos

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/cluster/proc"
)

func (r *Rig) eventsPath() string { return filepath.Join(r.disks[0].Path, "events.ndjson") }

// configPath is the path of the config of informd i.
func (r *Rig) configPath(i int) string { return r.dir.Join(fmt.Sprintf("informd-%d.yaml", i)) }

// StartInformd starts what is to be tested, all replicas of it.
func (r *Rig) StartInformd(ctx context.Context) error {
	user, err := r.cluster.AddUser(informdUser)
	if err != nil {
		return err
	}
	config := user.RESTConfig()
	if r.route, err = r.newRoute(config); err != nil {
		return err
	}
	for i := range r.options.Informds {
		if err := r.startInformd(ctx, i, config); err != nil {
			return err
		}
	}
	if r.options.paired() {
		r.witness = newWitness(r)
		r.closing(r.witness.close)
	}
	return nil
}

func (r *Rig) startInformd(ctx context.Context, i int, client *rest.Config) error {
	port, err := proc.FreePort()
	if err != nil {
		return err
	}
	r.closing(func() error { port.Release(); return nil })
	if err := r.addSide(port.Address()); err != nil {
		return err
	}
	kubeconfig, err := r.writeKubeconfig(i, client)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("informd-%d", i)
	admin := port.Address()
	args := []string{"run", "--config", r.configPath(i)}
	if r.options.Baseline {
		admin = ""
		args = []string{"-kubeconfig", kubeconfig, "-url", "nats://" + r.busLink.Address(), "-stream", busStream, "-resources", r.resourceList()}
	} else if err := r.writeConfig(i, admin); err != nil {
		return err
	}
	d, err := startDaemon(ctx, name, r.options.Binary, args, admin, r.dir.Join(name+".log"))
	if err != nil {
		return err
	}
	r.closing(d.Close)
	r.informds = append(r.informds, d)
	return nil
}

func (r *Rig) kubeconfigPath(i int) string { return r.dir.Join(fmt.Sprintf("kubeconfig-%d", i)) }

// writeKubeconfig writes the user's way to the API servers through the link of informd i.
func (r *Rig) writeKubeconfig(i int, client *rest.Config) (string, error) {
	config := rest.CopyConfig(client)
	config.Host = "https://" + r.sides[i].api.Address()
	path := r.kubeconfigPath(i)
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"u","user":{"client-certificate-data":%q,"client-key-data":%q}}]}`,
		config.Host, base64.StdEncoding.EncodeToString(config.CAData), base64.StdEncoding.EncodeToString(config.CertData), base64.StdEncoding.EncodeToString(config.KeyData))
	return path, os.WriteFile(path, []byte(text), 0o600)
}

func (r *Rig) writeConfig(i int, admin string) error {
	return os.WriteFile(r.configPath(i), []byte(r.config(i, admin)), 0o600)
}

// leaseDuration is short, so that there are many takeovers.
const leaseDuration = 2 * time.Second

// leaseName is the name of the replicas' Lease, in the namespace default.
const leaseName = "informd"

// config is that of informd i.
func (r *Rig) config(i int, admin string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster: chaos\nkubernetes: {kubeconfig: %q}\nresources:\n", r.kubeconfigPath(i))
	b.WriteString(r.resources())
	limit := r.options.journalBytes()
	if r.options.Journal == JournalMemory {
		limit = ", maxBytes: 64MiB"
	}
	side := r.sides[i]
	fmt.Fprintf(&b, "journal: {type: %s, dir: %q%s}\n", r.options.Journal, side.dir, limit)
	files := fmt.Sprintf("  - {name: file, type: file, path: %q, maxBytes: 100GiB}\n", r.eventsPath())
	if r.options.paired() {
		files = ""
		fmt.Fprintf(&b, "replicas: {lease: %s, namespace: default, duration: %s, address: %q}\n", leaseName, leaseDuration, side.peer.Address())
	}
	fmt.Fprintf(&b, `sinks:
%s  - {name: bus, type: nats, servers: [%q], stream: %s, subjectPrefix: %s, create: {historyPerObject: 0}}
  - {name: hook, type: webhook, url: %q, timeout: 2s, batch: %d}
admin: {listen: %q, socket: %q}
`, files, "nats://"+side.bus.Address(), busStream, busPrefix, r.hookURL(i), 20+side.variant, admin, r.dir.Join(fmt.Sprintf("informd-%d.sock", i)))
	fmt.Fprintf(&b, "redaction: {keyFile: %q}\n", r.redactionKey())
	return b.String()
}

// redactionKey is a key file that all replicas share.
func (r *Rig) redactionKey() string { return r.dir.Join("redaction.key") }

// resourceList names the resources for the baseline: group/version/resource.
func (r *Rig) resourceList() string {
	var all []string
	for _, k := range r.kinds {
		all = append(all, k.gvr.Group+"/"+k.gvr.Version+"/"+k.gvr.Resource)
	}
	return strings.Join(all, ",")
}
