package config

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/informd/informd/internal/config/internal/document"
)

// strays warns of the variables of an environment that are called as those of keys are,
// and are none, so that they have no effect.
func strays(environment []string, body []byte) Errors {
	known := []string{strings.TrimPrefix(envConfig, envPrefix)}
	for _, key := range singleKeys() {
		known = append(known, strings.TrimPrefix(variable(key), envPrefix))
	}
	var all Errors
	for _, one := range environment {
		name, value, _ := strings.Cut(one, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" || slices.Contains(known, rest) || isForeign(name) || bytes.Contains(body, []byte(reference+name+"}")) {
			continue
		}
		hint := "it would be " + envPrefix + " and a key outside of resources and sinks, as in " + variable("log.level")
		if near, ok := Nearest(rest, known); ok {
			hint = fmt.Sprintf("did you mean %q?", envPrefix+near)
		}
		all = append(all, Error{File: document.OneLine(name), Msg: "is the variable of no key, and has no effect (" + hint + ")"})
	}
	slices.SortFunc(all, func(a, b Error) int { return strings.Compare(a.File, b.File) })
	return all
}

// isForeign reports whether others make the variable: the kubelet does, for every Service
// of the namespace that is called informd or informd-something, and so do informd's tests.
func isForeign(name string) bool {
	return regexp.MustCompile(`^INFORMD_(TEST_.*|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`).MatchString(name)
}
