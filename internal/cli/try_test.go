package cli

import (
	"path/filepath"
	"testing"
)

// TestTryIsHarmless: an object of the cluster has characters that a terminal obeys.
func TestTryIsHarmless(t *testing.T) {
	dir := t.TempDir()
	object, config := filepath.Join(dir, "pod.json"), filepath.Join(dir, "config.yaml")
	for path, text := range map[string]string{
		object: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","annotations":{"x":"` + "\u009b31m\u202e" + `"}}}`,
		config: `cluster: c
resources: [{resource: pods, changes: [oldObject, changed, patch]}]
sinks:
  - {name: raw, type: stdout, format: raw}
  - {name: pretty, type: stdout, format: pretty}
  - {name: bus, type: nats, servers: [nats://localhost]}
  - {name: topic, type: kafka, servers: [localhost], topic: t}
  - {name: table, type: postgres, servers: [localhost], database: d, auth: {username: u}}
  - {name: logs, type: otlp, url: "http://localhost:4318"}
  - {name: hook, type: webhook, url: "http://localhost:80"}
`,
	} {
		write(t, path, text)
	}
	out, _ := ends(t, exitOK, "try", "-c", config, "-f", object)
	checkHarmless(t, out)
}
