package frame

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/informd/informd/internal/jsonend"
	"github.com/informd/informd/pkg/fieldpath"
)

// plainAnnotations are annotations of Secrets whose values stay: names, times and
// settings that well-known tools write. Other tools keep copies of the whole Secret in
// annotations, as kubectl does.
func plainAnnotations() []string {
	return []string{
		"kubernetes.io/service-account.name",
		"kubernetes.io/service-account.uid",
		"kubernetes.io/description",
		"kubectl.kubernetes.io/restartedAt",
		"meta.helm.sh/release-name",
		"meta.helm.sh/release-namespace",
		"helm.sh/hook",
		"helm.sh/hook-delete-policy",
		"helm.sh/hook-weight",
		"helm.sh/resource-policy",
		"argocd.argoproj.io/compare-options",
		"argocd.argoproj.io/hook",
		"argocd.argoproj.io/sync-options",
		"argocd.argoproj.io/sync-wave",
		"argocd.argoproj.io/tracking-id",
		"kustomize.toolkit.fluxcd.io/prune",
		"kustomize.toolkit.fluxcd.io/reconcile",
		"kustomize.toolkit.fluxcd.io/ssa",
		"cert-manager.io/alt-names",
		"cert-manager.io/certificate-name",
		"cert-manager.io/common-name",
		"cert-manager.io/ip-sans",
		"cert-manager.io/issuer-group",
		"cert-manager.io/issuer-kind",
		"cert-manager.io/issuer-name",
		"cert-manager.io/uri-sans",
		"sealedsecrets.bitnami.com/cluster-wide",
		"sealedsecrets.bitnami.com/managed",
		"sealedsecrets.bitnami.com/namespace-wide",
		"sealedsecrets.bitnami.com/patch",
		"reflector.v1.k8s.emberstack.com/*",
		"replicator.v1.mittwald.de/*",
	}
}

// keys are names, and prefixes of names that end in a star.
type keys struct {
	names    map[string]struct{}
	prefixes []string
}

func newKeys(all ...string) keys {
	k := keys{names: make(map[string]struct{}, len(all))}
	for _, one := range all {
		if prefix, ok := strings.CutSuffix(one, "*"); ok {
			k.prefixes = append(k.prefixes, prefix)
			continue
		}
		k.names[one] = struct{}{}
	}
	return k
}

func (k *keys) has(key []byte) bool {
	_, named := k.names[string(key)]
	return named || slices.ContainsFunc(k.prefixes, func(prefix string) bool { return strings.HasPrefix(string(key), prefix) })
}

// annotationsField is that of annotations in the hash of a value.
const annotationsField = "metadata.annotations"

// secretFields are the members of a Secret whose values are replaced.
func secretFields() [3]string { return [...]string{annotationsField, "data", "stringData"} }

// secretSet leads to each of these fields, and then to the values in it.
func secretSet() *fieldpath.Set {
	var paths []fieldpath.Path
	for _, field := range secretFields() {
		outer, _ := fieldpath.Parse(field)        // is a path
		inner, _ := fieldpath.Parse(field + ".*") // likewise
		paths = append(paths, outer, inner)
	}
	return fieldpath.NewSet(paths...)
}

// hideSecret appends a Secret to dst, its values replaced: a field that is not an object as a whole.
// With again, what is a hash already stays. Otherwise it replaces in a Secret of the log what
// earlier settings let show: an annotation that was a plain one, for example.
func (s *Shape) hideSecret(dst, object []byte, o Object, again bool) []byte {
	r := fieldpath.Rewriter{Set: s.secret, Replace: func(dst []byte, m fieldpath.Match) ([]byte, bool) {
		field, inner := secretFields()[m.Path/2], m.Path%2 == 1
		kind, key, value := "whole", []byte(nil), m.Value
		text, isText := jsonend.Decode(m.Value)
		switch {
		case inner:
			key = m.Location[len(field)+1:] // each key of a location has a byte before it, as with dots
			_, length := binary.Uvarint(key)
			if key = key[length:]; field == annotationsField && s.redactor.plain.has(key) {
				return dst, false
			}
			if isText {
				kind, value = "value", text
			}
		case m.Value[0] == '{', m.Value[0] == 'n':
			return dst, false
		}
		if again && isText && made(text) {
			return dst, false
		}
		dst = s.redactor.hash(append(dst, '"'), o, kind, field, string(key), value)
		return append(dst, '"'), true
	}}
	return r.Append(dst, object)
}
