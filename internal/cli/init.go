package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
)

// starter is what init writes, and where.
type starter struct {
	file  string
	force bool

	cluster    string
	kubernetes config.Kubernetes
	resources  []string
	sink       string
	// options are keys of the sink with their values in YAML: key=value.
	options []string
}

func initCommand(std streams) *cobra.Command {
	var s starter
	types := configfile.Types(std.program.Drivers)
	cmd := &cobra.Command{
		Use: "init", Short: "write a config with comments", GroupID: setUpGroup,
		Long: `informd init writes a config with comments, from the flags, and checks it. It contacts no
server: 'informd plan' then shows what informd would watch, and 'informd rbac' prints the
permissions that the config needs. It does not overwrite a file without --force.`,
		Example: `informd init
informd init --resources pods,deployments.apps --sink file --set path=events.ndjson
informd init --resources pods --sink nats --set servers=nats://nats:4222 --cluster prod-eu1`,
		Annotations: exitCodes(usualExits),
		Args:        noArguments,
		RunE:        func(*cobra.Command, []string) error { return s.write(std) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&s.file, "config", "c", "config.yaml", "config file to write")
	flags.BoolVar(&s.force, "force", false, "overwrite the file")
	flags.StringSliceVar(&s.resources, "resources", []string{"pods", "deployments.apps"}, "resources to watch, as kubectl names them")
	flags.StringVar(&s.sink, "sink", "stdout", "type of the sink: "+alternatives(types))
	flags.StringArrayVar(&s.options, "set", nil, "key of the sink with its value in YAML, as in url=https://example.com/events; may be repeated")
	flags.StringVar(&s.cluster, "cluster", "", "name of the cluster in events, which no other cluster has; required for a sink that is not on this machine")
	flags.StringVar(&s.kubernetes.Kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: that of the Pod, else $KUBECONFIG, else ~/.kube/config)")
	flags.StringVar(&s.kubernetes.Context, "context", "", "context of the kubeconfig (default: the current one)")
	complete(cmd, "sink", types...)
	completeConfig(cmd)
	return cmd
}

// write writes the config if it is valid.
func (s *starter) write(std streams) error {
	for _, option := range s.options {
		if key, value, ok := strings.Cut(option, "="); !ok || key == "" || value == "" {
			return misused("--set %q: it must be key=value", option)
		}
	}
	text := s.text()
	if _, err := configfile.Parse(s.file, []byte(text), std.program.Drivers); err != nil {
		return misused("the config would be wrong; --cluster, --resources, --sink and --set key=value change it:\n%v", err)
	}
	mode := os.O_CREATE | os.O_WRONLY | os.O_EXCL
	if s.force {
		mode = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	}
	file, err := os.OpenFile(s.file, mode, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return misused("%s exists: overwrite it with --force, or name another file with --config", s.file)
	}
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("write the config: %w", err)
	}
	_, err = fmt.Fprintf(std.out, `wrote %[1]s

Look at what informd would watch, and run it here:
  informd plan -c %[1]s
  informd run -c %[1]s
Or give its account in the cluster the permissions:
  kubectl create namespace informd
  informd rbac -c %[1]s | kubectl apply -f -
`, s.file)
	return err
}

// text is the config.
func (s *starter) text() string {
	var b strings.Builder
	b.WriteString(`# The config of informd, written by informd init. informd validate checks it, informd explain <key>
# documents a key, and informd try shows the event of an object.
`)
	if s.cluster != "" {
		fmt.Fprintf(&b, "\n# The name of the cluster, in every event.\ncluster: %s\n", strconv.Quote(s.cluster))
	}
	if k := s.kubernetes; k != (config.Kubernetes{}) {
		b.WriteString("\n# The API server. Remove this block for a Pod with a ServiceAccount.\nkubernetes:\n")
		if k.Kubeconfig != "" {
			fmt.Fprintf(&b, "  kubeconfig: %s\n", strconv.Quote(k.Kubeconfig))
		}
		if k.Context != "" {
			fmt.Fprintf(&b, "  context: %s\n", strconv.Quote(k.Context))
		}
	}
	b.WriteString(`
# The resources to watch, as kubectl names them: kubectl api-resources -o name. An entry
# with options is a mapping: {resource: pods, namespaces: [shop], mode: metadata}.
resources:
`)
	for _, r := range s.resources {
		fmt.Fprintf(&b, "  - %s\n", strconv.Quote(r))
	}
	fmt.Fprintf(&b, `
# The journal keeps events until each sink has them. In a Pod, its directory is a volume.
journal:
  dir: ./informd-data

# The destinations. Each sink gets every event, unless it has a match.
sinks:
  - name: out
    type: %s
`, strconv.Quote(s.sink))
	for _, option := range s.options {
		key, value, _ := strings.Cut(option, "=")
		fmt.Fprintf(&b, "    %s: %s\n", key, value)
	}
	fmt.Fprintf(&b, "    # informd explain sinks.%s lists the other keys.\n", s.sink)
	return b.String()
}
