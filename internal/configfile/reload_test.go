package configfile_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
)

// TestReplaces: resources, sinks and the log's level change in a running informd,
// all else names its place.
func TestReplaces(t *testing.T) {
	const base = `resources: [{resource: pods}]
sinks: [{name: out, type: stdout}]
journal: {type: log, dir: /a, historyPerObject: 4}
admin: {listen: "127.0.0.1:1"}
`
	for name, test := range map[string]struct {
		next string
		want []string
	}{
		"same":               {next: base},
		"what may change":    {next: strings.NewReplacer("pods", "secrets", "name: out", "name: other").Replace(base) + "log: {level: debug}\nkubernetes: {maxWatches: 5}\n"},
		"comments and lines": {next: "# moved\n\n" + base},
		"journal": {
			next: strings.NewReplacer("/a", "/b", "historyPerObject: 4", "historyPerObject: 5").Replace(base),
			want: []string{
				"config.yaml:3:27: journal.dir: cannot change while informd runs: restart it, or set it back",
				"config.yaml:3:49: journal.historyPerObject: cannot change while informd runs: restart it, or set it back",
			},
		},
		"to a default": {
			next: strings.ReplaceAll(base, `admin: {listen: "127.0.0.1:1"}`, ""),
			want: []string{"config.yaml: admin.listen: cannot change while informd runs: restart it, or set it back"},
		},
		"cluster and format": {
			next: base + "cluster: other\nlog: {format: json}\n",
			want: []string{
				"config.yaml:5:10: cluster: cannot change while informd runs: it is in every event of the journal; " +
					"set it back, or restart informd with an empty journal.dir, which begins with a new snapshot",
				"config.yaml:6:15: log.format: cannot change while informd runs: restart it, or set it back",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			if err := mustParse(t, base).Replaces(mustParse(t, test.next)); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSame: a sink that is only written elsewhere or in another order is the same sink. One that does something else is
// another one.
func TestSame(t *testing.T) {
	const base = "cluster: c\nresources: [{resource: pods}]\n" +
		`sinks: [{name: hook, type: webhook, url: "http://127.0.0.1:1/a", headers: {A: b}, ` +
		`match: [{condition: "op == 'added'", onConditionError: drop}]}]` + "\n"
	for name, test := range map[string]struct {
		next string
		want bool
	}{
		"same":             {base, true},
		"elsewhere":        {"# moved\n\n" + base, true},
		"another order":    {replace(base, "name: hook, type: webhook", "type: webhook, name: hook", ", headers: {A: b}", "", "url:", "headers: {A: b}, url:"), true},
		"other url":        {replace(base, "1/a", "1/b"), false},
		"other header":     {replace(base, "A: b", "A: c"), false},
		"other match":      {replace(base, "match: [{", "match: [{resource: pods, "), false},
		"no match":         {replace(base, `, match: [{condition: "op == 'added'", onConditionError: drop}]`, ""), false},
		"other type":       {"cluster: c\nresources: [pods]\nsinks: [{name: hook, type: stdout}]\n", false},
		"other expression": {replace(base, "added", "modified"), false},
		"other policy":     {replace(base, "drop", "deliver"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustParse(t, base).Sinks[0].Same(mustParse(t, test.next).Sinks[0]); got != test.want {
				t.Errorf("Same: %t", got)
			}
		})
	}
}

// TestSum follows the content of a file and says when there is none.
func TestSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if _, err := configfile.Sum(path); err == nil {
		t.Error("the sum of a missing file")
	} else if problems := (config.Errors{}); !errors.As(err, &problems) {
		t.Errorf("error %v", err)
	}
	sum, err := configfile.Sum(write(t, path, minimal))
	if err != nil || sum != mustParse(t, minimal).Sum || sum == mustParse(t, minimal+"\n").Sum {
		t.Errorf("Sum: %v", err)
	}
}

// TestChangedOfRemovedFields: a change filter that no event of its entries can show a change of is worth
// a warning.
func TestChangedOfRemovedFields(t *testing.T) {
	const cut = "resources[0].omit cuts out status; remove that, or ask about what is left"
	for name, tt := range map[string]struct{ resources, match, want string }{
		"nothing is cut":     {"{resource: pods, emitWhen: {changed: [status]}}", "{changed: [status]}", ""},
		"entry":              {"{resource: pods, omit: [status], emitWhen: {changed: [spec, status.phase]}}", "{}", `config.yaml:2:73: resources[0].emitWhen.changed[1]: "status.phase" is in no event, so that it never changes: ` + cut},
		"sink":               {"{resource: pods, omit: [status]}", "{changed: [status]}", `config.yaml:3:54: sinks[0].match[0].changed[0]: "status" is in no event, so that it never changes: ` + cut},
		"of one entry":       {"{resource: pods, omit: [status]}, {resource: events}", "{changed: [status]}", ""},
		"another field":      {"{resource: pods, omit: [status]}, {resource: events}", "{changed: [status, spec]}", ""},
		"of another entry":   {"{resource: pods, omit: [status]}, {resource: events}", "{resource: events, changed: [status]}", ""},
		"not kept":           {"{resource: pods, keep: [spec.nodeName], emitWhen: {changed: [metadata]}}", "{}", `config.yaml:2:74: resources[0].emitWhen.changed[0]: "metadata" is in no event, so that it never changes: resources[0].keep does not have it; add it there, or ask about what is kept`},
		"kept in part":       {"{resource: pods, keep: [spec.nodeName, metadata.labels], emitWhen: {changed: [spec, metadata]}}", "{}", ""},
		"in elements":        {`{resource: pods, omit: [status], emitWhen: {changed: ["status.conditions[].type"]}}`, "{}", `config.yaml:2:67: resources[0].emitWhen.changed[0]: "status.conditions[].type" is in no event, so that it never changes: ` + cut},
		"in some elements":   {`{resource: pods, omit: ["status.conditions[].type"], emitWhen: {changed: ["status.conditions"]}}`, "{}", ""},
		"below any key":      {`{resource: pods, omit: [metadata.labels], mode: metadata, emitWhen: {changed: ["*.labels"]}}`, "{}", ""},
		"metadata of one":    {"{resource: pods, mode: metadata}, {resource: events}", "{changed: [status]}", ""},
		"redacted, it shows": {"{resource: pods, redact: [status], emitWhen: {changed: [status]}}", "{}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustParse(t, "cluster: c\nresources: ["+tt.resources+
				"]\nsinks: [{name: out, type: stdout, match: ["+tt.match+"]}]\n")
			if diff := cmp.Diff(tt.want, warnings(c)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
