package when

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	kubernetes "k8s.io/apiserver/pkg/cel/library"
)

// library has the functions that expressions may call beside CEL's own, for an environment with
// optional types: those of admission policies in Kubernetes, and CEL's extensions for strings,
// lists, sets, two-variable comprehensions and addresses.
//
// Admission policies judge objects that the API server has checked. Here the text of
// an object may be hostile, so that informd adds what bounds a call: a cost that
// is charged before the call, a time limit for searches, the size of a quantity. A regular
// expression must be a literal.
func library() []cel.EnvOption {
	return []cel.EnvOption{
		ext.Strings(ext.StringsVersion(5)),
		ext.Lists(ext.ListsVersion(3), ext.ListsMaxRangeSize(maxRange)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		ext.Network(), // those of Kubernetes, with an error in the config for a wrong address in it
		kubernetes.Lists(kubernetes.ListsVersion(1)),
		kubernetes.Regex(),
		cel.ASTValidators(literalPatterns{}),
		kubernetes.URLs(),
		kubernetes.Quantity(),
		kubernetes.Format(),
		kubernetes.SemverLib(kubernetes.SemverVersion(1)),
	}
}

// maxRange is the longest list that lists.range makes.
const maxRange = 10_000
