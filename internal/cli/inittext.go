package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/informd/informd/internal/cli/internal/terminal"
	"github.com/informd/informd/internal/daemon"
)

// text is the config that init writes.
func (s *starter) text(cluster daemon.Survey) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The config of informd, written by informd init for the API server at
# %s. informd validate checks it, informd explain <key>
# documents a key, and informd try shows the event of an object.

# The name of the cluster, in every event.
cluster: %s
`, terminal.Visible(cluster.Server), strconv.Quote(s.cluster))
	if k := s.kubernetes; k.Kubeconfig != "" || k.Context != "" {
		b.WriteString("\n# The API server. Remove this block for a Pod with a ServiceAccount.\nkubernetes:\n")
		if k.Kubeconfig != "" {
			fmt.Fprintf(&b, "  kubeconfig: %s\n", strconv.Quote(k.Kubeconfig))
		}
		if k.Context != "" {
			fmt.Fprintf(&b, "  context: %s\n", strconv.Quote(k.Context))
		}
	}
	fmt.Fprintf(&b, `
# The resources to watch, as kubectl names them: kubectl api-resources -o name. An entry
# with options is a mapping: {resource: pods, namespaces: [shop], mode: metadata}.
resources:
`)
	for _, r := range s.resources {
		fmt.Fprintf(&b, "  - %s\n", entryOf(r))
	}
	b.WriteString(`
# The journal keeps events until each sink has them. In a Pod, its directory is a volume.
journal:
  dir: ./informd-data

# The destinations. Each sink gets every event, unless it has a match.
sinks:
`)
	b.WriteString(s.sinkText())
	return b.String()
}

// entryOf is the entry of a resource that kubectl names. YAML needs quotes for patterns.
func entryOf(name string) string {
	if strings.ContainsAny(name, "*?[") {
		return strconv.Quote(name)
	}
	return name
}

// sinkText is the sink of the config.
func (s *starter) sinkText() string {
	if s.sink == stdoutSink {
		return `  - name: out
    type: stdout
`
	}
	quoted := make([]string, len(s.servers))
	for i, server := range s.servers {
		quoted[i] = strconv.Quote(server)
	}
	return fmt.Sprintf(`  - name: bus
    type: nats
    servers: [%s]
    # informd creates the stream with the last 16 events of each object. maxAge removes
    # deleted objects from it, and maxBytes limits its size on the server.
    create: {maxBytes: 10GiB}
`, strings.Join(quoted, ", "))
}
