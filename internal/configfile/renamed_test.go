package configfile_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
)

// Every old key is an error with file, line, column and the new name, in a mapping that
// takes the new one. A key of sinks may be one of a single sink type.
func TestRenamedKeys(t *testing.T) {
	for old, to := range configfile.RenamedKeys() {
		t.Run(old, func(t *testing.T) {
			key := strings.ReplaceAll(old, "[]", "[0]")
			want := regexp.MustCompile(`(?m)^c\.yaml:[1-9][0-9]*:[1-9][0-9]*: ` + regexp.QuoteMeta(key) + `: was renamed: use ` + regexp.QuoteMeta(to) + `\b`)
			var errs []string
			for _, driver := range drivers.All() {
				_, err := configfile.Parse("c.yaml", []byte(withKey(old, driver.Type)), drivers.All())
				if errs = append(errs, text(err)); want.MatchString(text(err)) {
					return
				}
			}
			t.Errorf("no error matches %s:\n%s", want, strings.Join(errs, "\n"))
		})
	}
}

// withKey is a config that has the key of a path, and a sink of the type.
func withKey(path, sinkType string) string {
	steps := strings.Split(path, ".")
	value := "x"
	for i := len(steps) - 1; i > 0; i-- {
		name, isList := strings.CutSuffix(steps[i], "[]")
		if value = fmt.Sprintf("{%s: %s}", name, value); isList {
			value = fmt.Sprintf("{%s: [%s]}", name, strings.TrimSuffix(strings.TrimPrefix(value, "{"+name+": "), "}"))
		}
	}
	body := map[string]string{"resources": "- pods", "sinks": "- {name: out, type: " + sinkType + "}"}
	switch top, isList := strings.CutSuffix(steps[0], "[]"); {
	case top == "sinks":
		body[top] = "- {name: out, type: " + sinkType + ", " + strings.TrimPrefix(value, "{")
	case isList:
		body[top] = "- " + value
	default:
		body[top] = value
	}
	var all strings.Builder
	for top, value := range body {
		fmt.Fprintf(&all, "%s:\n  %s\n", top, value)
	}
	return all.String()
}

// The variable of a renamed key is an error, too: it would have no effect.
func TestRenamedVariables(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "c.yaml"), minimal)
	for old, now := range map[string]string{
		"INFORMD_JOURNAL_TOMBSTONE_TTL": "INFORMD_JOURNAL_DELETED_RETENTION", "INFORMD_ADMIN_ALLOW_PLAINTEXT": "INFORMD_ADMIN_ALLOW_HTTP",
	} {
		t.Run(old, func(t *testing.T) {
			noVariables(t)
			t.Setenv(old, "x")
			if _, err := load(t, "-c", path); text(err) != old+": was renamed: use "+now {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// The values of changes that were renamed say so, too.
func TestRenamedValues(t *testing.T) {
	for old, to := range map[string]string{"paths": "changed", "old": "oldObject"} {
		for _, changes := range []string{old, "[patch, " + old + "]"} {
			_, err := configfile.Parse("c.yaml", []byte("resources: [{resource: pods, changes: "+changes+"}]\nsinks: [{name: out, type: stdout}]\n"), fakeDrivers())
			if want := fmt.Sprintf("%q was renamed: use %s", old, to); !strings.Contains(text(err), want) {
				t.Errorf("changes: %s gives %v, want %s", changes, err, want)
			}
		}
	}
}
