// Package library has the functions that expressions may call beside CEL's own:
// those of admission policies in Kubernetes (quantities, regular expressions, lists,
// URLs, IP addresses, named formats) and CEL's extensions for strings, lists, sets
// and two-variable comprehensions, with what each call costs.
//
// Names, types and results are those of k8s.io/apiserver/pkg/cel/library. That package itself is
// not used: through its authorizer it links the whole core API. With v0.37.2 the static binary
// grows from 37.3 to 40.8 MiB, above the limit in docs/internals/benchmarks.md. Its semver
// functions are left out.
//
// It does not compile or evaluate anything; package when does.
package library

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// Options are the functions, for an environment with optional types.
func Options() []cel.EnvOption {
	all := []cel.EnvOption{
		ext.Strings(ext.StringsVersion(5)),
		ext.Lists(ext.ListsVersion(3), ext.ListsMaxRangeSize(maxRange)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		ext.Network(),
	}
	for _, functions := range [][]cel.EnvOption{quantities(), regexes(), lists(), urls(), formats()} {
		all = append(all, functions...)
	}
	return all
}

// maxRange is the longest list that lists.range makes.
const maxRange = 10_000
