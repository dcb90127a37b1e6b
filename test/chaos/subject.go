package chaos

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/cluster/proc"
)

func (r *Rig) eventsPath() string { return filepath.Join(r.disk.Path, "events.ndjson") }

// journalDir is where informd i keeps its state.
func (r *Rig) journalDir(i int) string { return filepath.Join(r.disk.Path, fmt.Sprintf("state-%d", i)) }

// configPath is the path of the config of informd i.
func (r *Rig) configPath(i int) string { return r.dir.Join(fmt.Sprintf("informd-%d.yaml", i)) }

// StartInformd starts what is to be tested, all replicas of it.
func (r *Rig) StartInformd(ctx context.Context) error {
	kubeconfig, err := r.writeKubeconfig()
	if err != nil {
		return err
	}
	for i := range r.options.Informds {
		if err := r.startInformd(ctx, i, kubeconfig); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rig) startInformd(ctx context.Context, i int, kubeconfig string) error {
	name := fmt.Sprintf("informd-%d", i)
	log := r.dir.Join(name + ".log")
	var args []string
	admin := ""
	if r.options.Baseline {
		args = []string{"-kubeconfig", kubeconfig, "-url", "nats://" + r.busLink.Address(), "-stream", busStream, "-resources", r.resourceList()}
	} else {
		port, err := proc.FreePort()
		if err != nil {
			return err
		}
		r.closing(func() error { port.Release(); return nil })
		admin = port.Address()
		config := r.configPath(i)
		if err := os.WriteFile(config, []byte(r.config(i, kubeconfig, admin, r.dir.Join(name+".sock"))), 0o600); err != nil {
			return err
		}
		args = []string{"run", "--config", config}
	}
	d, err := startDaemon(ctx, name, r.options.Binary, args, admin, log)
	if err != nil {
		return err
	}
	r.closing(d.Close)
	r.informds = append(r.informds, d)
	return nil
}

// writeKubeconfig writes the user's way to the API servers through the link.
func (r *Rig) writeKubeconfig() (string, error) {
	user, err := r.cluster.AddUser(informdUser)
	if err != nil {
		return "", err
	}
	config := user.RESTConfig()
	if r.route, err = r.newRoute(config); err != nil {
		return "", err
	}
	config.Host = "https://" + r.apiLink.Address()
	if slices.Contains(r.options.Faults, "N8") {
		if r.frames, err = NewFrameProxy(config); err != nil {
			return "", err
		}
		r.closing(r.frames.Close)
		config = &rest.Config{Host: r.frames.URL()}
	}
	path := r.dir.Join("kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"u","user":{"client-certificate-data":%q,"client-key-data":%q}}]}`,
		config.Host, base64.StdEncoding.EncodeToString(config.CAData), base64.StdEncoding.EncodeToString(config.CertData), base64.StdEncoding.EncodeToString(config.KeyData))
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// config is that of informd i.
func (r *Rig) config(i int, kubeconfig, admin, socket string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster: chaos\nkubernetes: {kubeconfig: %q}\nresources:\n", kubeconfig)
	b.WriteString(r.resources())
	limit := r.options.journalBytes()
	if r.options.Journal == JournalMemory {
		limit = ", maxBytes: 64MiB"
	}
	fmt.Fprintf(&b, "journal: {type: %s, dir: %q%s}\n", r.options.Journal, r.journalDir(i), limit)
	files := fmt.Sprintf("  - {name: file, type: file, path: %q, maxBytes: 100GiB}\n", r.eventsPath())
	if r.options.paired() {
		files = ""
		b.WriteString("replicas: {lease: informd, namespace: default}\n")
	}
	fmt.Fprintf(&b, `sinks:
%s  - {name: bus, type: nats, servers: [%q], stream: %s, subjectPrefix: %s, create: {historyPerObject: 0}}
  - {name: hook, type: webhook, url: %q, timeout: 2s, batch: 20}
admin: {listen: %q, socket: %q}
`, files, "nats://"+r.busLink.Address(), busStream, busPrefix, r.hook.URL(), admin, socket)
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
