package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", "resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\n")
	bad := file("bad.yaml", "resources: [{resource: pods}]\nsinks: [{name: out, type: stdut}]\n")
	noKey := file("key.yaml", "resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\nredaction: {keyFile: "+file("key", "short")+"}\nkubernetes: {kubeconfig: "+file("kubeconfig", `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}]}`)+"}\n")
	noCluster := file("cluster.yaml", "resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\nkubernetes: {kubeconfig: /nonexistent}\n")
	cases := map[string]struct {
		args   []string
		code   int
		out    string // in standard output
		errors string // in standard error
	}{
		"validate a good config":   {[]string{"validate", "-c", good}, exitOK, "good.yaml: ok (resources: 1, sinks: 1)", ""},
		"validate a bad config":    {[]string{"validate", "-c", bad}, exitUsage, "", `bad.yaml:2:27: sinks[0].type: unknown sink type "stdut" (did you mean "stdout"?)`},
		"run a bad config":         {[]string{"-c", bad}, exitUsage, "", "bad.yaml:2:27"},
		"rbac":                     {[]string{"rbac", "-c", good}, exitOK, "\nrules:\n# Line 1 of the config.\n- apiGroups:\n  - \"\"\n  resources:\n  - pods\n", ""},
		"rbac for an account":      {[]string{"rbac", "-c", good, "--name", "orders", "--namespace", "shop"}, exitOK, "- kind: ServiceAccount\n  name: orders\n  namespace: shop\n", ""},
		"rbac of a bad config":     {[]string{"rbac", "-c", bad}, exitUsage, "", "bad.yaml:2:27"},
		"rbac for a bad name":      {[]string{"rbac", "-c", good, "--name", "a\nb"}, exitUsage, "", `--name "a\nb"`},
		"rbac for a bad namespace": {[]string{"rbac", "-c", good, "--namespace", "a.b"}, exitUsage, "", `--namespace "a.b"`},
		"bad flag value":           {[]string{"validate", "-c", good, "--log-level", "loud"}, exitUsage, "", "--log-level"},
		"version":                  {[]string{"version"}, exitOK, "informd ", ""},
		"version flag":             {[]string{"--version"}, exitOK, "informd ", ""},
		"help":                     {[]string{"--help"}, exitOK, "validate", ""},
		"help command":             {[]string{"help"}, exitOK, "--once", ""},
		"help for a command":       {[]string{"validate", "--help"}, exitOK, "--config", ""},
		"unknown command":          {[]string{"walk"}, exitUsage, "", `unknown command "walk"`},
		"unknown flag":             {[]string{"run", "--onec"}, exitUsage, "", "--onec"},
		"surplus argument":         {[]string{"validate", "-c", good, "x"}, exitUsage, "", `unexpected argument "x"`},
		"redaction key too short":  {[]string{"run", "-c", noKey}, exitFailure, "", "it needs at least 32"},
		"kubeconfig is not there":  {[]string{"run", "-c", noCluster}, exitFailure, "", "/nonexistent"},
		"config file is not there": {[]string{"run", "-c", filepath.Join(dir, "none.yaml")}, exitUsage, "", "none.yaml"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), c.args, &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errors) {
				t.Errorf("exit %d, want %d\nstdout: %s\nstderr: %s", code, c.code, out.String(), errs.String())
			}
		})
	}
}
