package configfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/config"
)

// TestOnePathWithoutList: changed takes one path or a list.
func TestOnePathWithoutList(t *testing.T) {
	read := func(changed string) *config.Config {
		return mustParse(t, "resources: [{resource: pods, emitWhen: {changed: "+changed+"}}]\nsinks: [{name: out, type: stdout, match: [{changed: "+changed+"}]}]\n")
	}
	one, list := read("spec"), read("[spec]")
	if diff := cmp.Diff(list.Resources[0].EmitWhen.Changed, one.Resources[0].EmitWhen.Changed); diff != "" {
		t.Errorf("emitWhen.changed (-list +one):\n%s", diff)
	}
	if diff := cmp.Diff(list.Sinks[0].Match[0].Changed, one.Sinks[0].Match[0].Changed); diff != "" || len(one.Sinks[0].Match[0].Changed) != 1 {
		t.Errorf("match.changed (-list +one):\n%s", diff)
	}
	_, err := parse("resources: [{resource: pods, emitWhen: {changed: 1}}]\nsinks: [{name: out, type: stdout}]\n")
	if want := "resources[0].emitWhen.changed: must be text, or a list of texts, not"; !strings.Contains(text(err), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
