// Package rbac prints the least permissions with which informd can do what its
// config says, as manifests for kubectl. It contacts nothing: what a resource needs
// follows from how package dynwatch watches it: with lists and watches, and its
// look-ups by name are lists, too. Beside that the daemon gets one namespace, to know
// the cluster by. The subcommand of the same name calls it.
//
// rules.go computes the permissions, manifest.go prints them.
package rbac

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/informd/informd/internal/config"
)

// The account of deploy/kustomize/base.
const (
	DefaultName      = "informd"
	DefaultNamespace = "informd"
)

// Account is the ServiceAccount that informd runs as.
type Account struct{ Name, Namespace string }

// role is the name of the account's roles. An application whose account a sidecar
// shares may have roles of its own under the plain name, and so may another informd;
// applying these must not change them.
func (a Account) role() string {
	if a == (Account{DefaultName, DefaultNamespace}) {
		return DefaultName
	}
	return "informd:" + a.Namespace + ":" + a.Name
}

// preamble is what the output begins with.
const preamble = `# The permissions that informd needs to watch the resources of its config, and no others.
# Printed by "informd rbac"; print it again after a change of resources or journal.
# Discovery (/api and /apis) and access reviews of informd's own permissions are not in it:
# Kubernetes allows both to each authenticated user (the ClusterRoles system:discovery and
# system:basic-user).
`

const rbacGroup = "rbac.authorization.k8s.io"

// Write writes the account, a ClusterRole, and a Role for each namespace that the
// config names, each with its binding. The same config gives the same bytes. Its
// error is w's.
func Write(w io.Writer, c *config.Config, a Account) error {
	m := manifests{account: a}
	m.text.WriteString(preamble)
	fmt.Fprintf(&m.text, "# The namespace is not in it, either; where there is none yet: kubectl create namespace %s\n", a.Namespace)
	m.add(headerOf("v1", "ServiceAccount", a.Name, a.Namespace))
	m.role("ClusterRole", "", clusterRules(c))
	namespaces := namespaceRules(c, a.Namespace)
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		m.role("Role", namespace, namespaces[namespace])
	}
	_, err := w.Write(m.text.Bytes())
	return err
}

// manifests are the documents so far.
type manifests struct {
	account Account
	text    bytes.Buffer
}

// role adds a role and its binding; without a namespace they are the cluster's.
func (m *manifests) role(kind, namespace string, rules []rule) {
	m.next()
	m.add(headerOf(rbacGroup+"/v1", kind, m.account.role(), namespace))
	m.text.WriteString("rules:\n")
	for _, r := range rules {
		for _, line := range r.why {
			fmt.Fprintf(&m.text, "# %s\n", line)
		}
		m.add([]rule{r})
	}
	m.next()
	binding := headerOf(rbacGroup+"/v1", kind+"Binding", m.account.role(), namespace)
	binding["roleRef"] = object{"apiGroup": rbacGroup, "kind": kind, "name": m.account.role()}
	binding["subjects"] = []object{{"kind": "ServiceAccount", "name": m.account.Name, "namespace": m.account.Namespace}}
	m.add(binding)
}

// next begins a document.
func (m *manifests) next() { m.text.WriteString("---\n") }

// add adds v to the document.
func (m *manifests) add(v any) {
	text, err := yaml.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode a manifest: %v", err)) // of strings and lists only: cannot fail
	}
	m.text.Write(text)
}

// object is a Kubernetes object, or a part of one.
type object map[string]any

// headerOf begins an object; without a namespace it is the cluster's.
func headerOf(apiVersion, kind, name, namespace string) object {
	metadata := object{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return object{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
}
