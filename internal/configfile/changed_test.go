package configfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
