package frame

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/dynwatch/internal/jsonscan"
	"github.com/informd/informd/pkg/fieldpath"
	"github.com/informd/informd/pkg/internal/jsonend"
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

// hideAnnotation marks the value of a Secret's annotation at i as one to replace.
func (p *pass) hideAnnotation(key []byte, i int) int {
	end := p.Value(i, 3)
	if end != jsonscan.None {
		p.Drop(i, end, &jsonscan.Secret{Field: annotationsField, Key: string(key), Whole: p.Data[i] != '"'})
	}
	return end
}

// secrets checks a Secret's data or stringData and marks every value in it as one
// to replace, or the whole if it is not an object of strings.
func (p *pass) secrets(i int, field string) int {
	if !p.opens(i, '{') {
		end := p.Value(i, 1)
		if end != jsonscan.None {
			p.Drop(i, end, &jsonscan.Secret{Field: field, Whole: true})
		}
		return end
	}
	strange := false
	end, _ := p.Walk(i, func(key []byte, value int) (int, bool) {
		end := p.Value(value, 2)
		if end != jsonscan.None && p.Data[value] != '"' {
			strange = true
		} else if end != jsonscan.None {
			p.Drop(value, end, &jsonscan.Secret{Field: field, Key: string(key)})
		}
		return end, false
	})
	if strange && end != jsonscan.None {
		p.Drop(i, end, &jsonscan.Secret{Field: field, Whole: true})
	}
	return end
}

// annotationsField is that of annotations in the hash of a value.
const annotationsField = "metadata.annotations"

// secretFields are the members of a Secret whose values are replaced.
func secretFields() []string { return []string{annotationsField, "data", "stringData"} }

// secretSet leads to these values.
func secretSet() *fieldpath.Set {
	var paths []fieldpath.Path
	for _, field := range secretFields() {
		path, _ := fieldpath.Parse(field + ".*") // is a path
		paths = append(paths, path)
	}
	return fieldpath.NewSet(paths...)
}

// hideSecret returns a Secret of the log with the values replaced that show in it, as earlier
// settings let them: an annotation that was a plain one, for example.
func (s *Shape) hideSecret(object []byte, o Object) []byte {
	r := fieldpath.Rewriter{Set: s.secret, Replace: func(dst []byte, m fieldpath.Match) []byte {
		field := secretFields()[m.Path]
		key := m.Location[len(fieldpath.Location(strings.Split(field, ".")...)):]
		_, length := binary.Uvarint(key)
		key = key[length:]
		text, is := jsonend.Decode(m.Value)
		if is && made(text) || field == annotationsField && s.redactor.plain.has(key) {
			return append(dst, m.Value...)
		}
		return s.redactor.redact(dst, o, &jsonscan.Secret{Field: field, Key: string(key), Whole: !is}, m.Value)
	}}
	return r.Append(nil, object)
}
