// Package library has the functions that expressions may call beside CEL's own:
// those of admission policies in Kubernetes (quantities, regular expressions, lists,
// URLs, IP addresses, named formats) and CEL's extensions for strings, lists, sets
// and two-variable comprehensions, with what each call costs.
//
// Names, types and results are those of k8s.io/apiserver/pkg/cel/library. That
// package itself is not used: through its authorizer, which a filter has no use for,
// it brings the whole core API and 3 MiB into the program. Its semver is left out.
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
