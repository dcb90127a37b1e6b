package rbac

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

type binding struct {
	metav1.PartialObjectMetadata
	RoleRef  roleRef   `json:"roleRef"`
	Subjects []subject `json:"subjects"`
}

type roleRef struct {
	APIGroup string `json:"apiGroup"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
}

type subject struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

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
	m.add(binding{
		PartialObjectMetadata: headerOf(rbacGroup+"/v1", kind+"Binding", m.account.role(), namespace),
		RoleRef:               roleRef{rbacGroup, kind, m.account.role()},
		Subjects:              []subject{{"ServiceAccount", m.account.Name, m.account.Namespace}},
	})
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

func headerOf(apiVersion, kind, name, namespace string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
	}
}
