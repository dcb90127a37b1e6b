package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/internal/daemon"
	"github.com/informd/informd/internal/rbac"
	"github.com/informd/informd/pkg/sink"
)

// starter is what init writes, and where.
type starter struct {
	config, manifest string
	force            bool
	account          rbac.Account
	kubernetes       config.Kubernetes

	cluster   string
	resources []string
	sink      string
	// options are keys of the sink with their values in YAML: key=value.
	options []string
	driver  sink.Driver
	// changed reports whether a flag was set.
	changed func(flag string) bool
}

// stdoutSink is the sink type of a config if no flag and no answer names one.
const stdoutSink = "stdout"

func initCommand(std streams) *cobra.Command {
	var s starter
	types := sinkTypes(std.program.Drivers)
	cmd := &cobra.Command{
		Use: "init", Short: "write a config, and the permissions that it needs", GroupID: setUpGroup,
		Long: `informd init asks the API server for its resources. It writes a config with comments, and a
manifest with the permissions that the config needs. On a terminal, it asks for the values
that no flag sets. In a script, --resources is required, and --set for the required keys of
the sink. It does not overwrite files without --force.`,
		Example: `informd init
informd init --resources pods,deployments.apps --sink stdout
informd init --resources pods --sink nats --set servers=nats://nats:4222 --cluster prod-eu1`,
		Annotations: exitCodes(usualExits),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(checkAccount(s.account), s.checkFiles()); err != nil {
				return err
			}
			cluster, err := daemon.Ask(cmd.Context(), s.kubernetes)
			if err != nil {
				return err
			}
			if err := s.complete(std, cluster); err != nil {
				return err
			}
			return s.write(std, cluster)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&s.config, "config", "c", "config.yaml", "config file to write")
	flags.StringVar(&s.manifest, "rbac", "rbac.yaml", "manifest to write, for kubectl apply")
	flags.BoolVar(&s.force, "force", false, "overwrite these files")
	flags.StringSliceVar(&s.resources, "resources", nil, "resources to watch, as kubectl names them: pods,deployments.apps")
	flags.StringVar(&s.sink, "sink", stdoutSink, "type of the sink: "+alternatives(types))
	flags.StringArrayVar(&s.options, "set", nil, "key of the sink with its value in YAML, as in url=https://example.com/events; may be repeated")
	flags.StringVar(&s.cluster, "cluster", "", "name of the cluster in events (default: the context of the kubeconfig)")
	flags.StringVar(&s.kubernetes.Kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: that of the Pod, else $KUBECONFIG, else ~/.kube/config)")
	flags.StringVar(&s.kubernetes.Context, "context", "", "context of the kubeconfig (default: the current one)")
	accountFlags(cmd, &s.account)
	complete(cmd, "sink", types...)
	completeConfig(cmd)
	s.changed = flags.Changed
	return cmd
}

// checkFiles returns the error of a file that exists, or of one file for both.
func (s *starter) checkFiles() error {
	if target(s.config) == target(s.manifest) {
		return misused("--config and --rbac name the same file %s: name two files", s.config)
	}
	for flag, path := range map[string]string{"--config": s.config, "--rbac": s.manifest} {
		if _, err := os.Lstat(path); !s.force && !errors.Is(err, fs.ErrNotExist) {
			return misused("%s exists: overwrite it with --force, or name another file with %s", path, flag)
		}
	}
	return nil
}

// target returns the absolute path of the file that a path leads to, through symbolic links.
func target(path string) string {
	if end, err := filepath.EvalSymlinks(path); err == nil {
		path = end
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path)) // the file does not exist yet
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

// write writes both files. The config is checked before it gets its name. A config that is a
// symbolic link stays one.
func (s *starter) write(std streams, cluster daemon.Survey) (err error) {
	file := target(s.config)
	draft, err := os.CreateTemp(filepath.Dir(file), ".informd-init-*.yaml")
	if err != nil {
		return fmt.Errorf("write the config: %w", err)
	}
	defer func() {
		if removed := os.Remove(draft.Name()); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	_, err = draft.WriteString(s.text(cluster))
	if err := errors.Join(err, draft.Close()); err != nil {
		return fmt.Errorf("write the config: %w", err)
	}
	c, err := configfile.Load(configfile.Source{Path: draft.Name(), Drivers: std.program.Drivers})
	if err != nil {
		return fmt.Errorf("check the new config: %s", strings.ReplaceAll(err.Error(), draft.Name(), s.config))
	}
	var manifest bytes.Buffer
	if err := rbac.Write(&manifest, c, s.account); err != nil {
		return err
	}
	if err := s.checkFiles(); err != nil { // one that came meanwhile
		return err
	}
	if err := os.WriteFile(s.manifest, manifest.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the permissions: %w", err)
	}
	if err := os.Rename(draft.Name(), file); err != nil {
		return fmt.Errorf("write the config: %w", err)
	}
	_, err = fmt.Fprintf(std.out, `wrote %[1]s: %[3]s, sink %[4]s
wrote %[2]s: permissions of the ServiceAccount %[5]s in the namespace %[6]s

Run informd here:
  informd run -c %[1]s
Or give its account in the cluster the permissions:
  kubectl create namespace %[6]s
  kubectl apply -f %[2]s
`, s.config, s.manifest, number(len(s.resources), "resource", "resources"), s.sink, s.account.Name, s.account.Namespace)
	return err
}

// text is the config that init writes.
func (s *starter) text(cluster daemon.Survey) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The config of informd, written by informd init for the API server at
# %s. informd validate checks it, informd explain <key>
# documents a key, and informd try shows the event of an object.

# The name of the cluster, in every event.
cluster: %s
`, visible(cluster.Server), strconv.Quote(s.cluster))
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
	fmt.Fprintf(&b, "  - name: out\n    type: %s\n", s.sink)
	for _, option := range s.options {
		key, value, _ := strings.Cut(option, "=")
		fmt.Fprintf(&b, "    %s: %s\n", key, value)
	}
	fmt.Fprintf(&b, "    # informd explain sinks.%s lists the other keys.\n", s.sink)
	return b.String()
}

// entryOf is the entry of a resource that kubectl names. YAML needs quotes for patterns.
func entryOf(name string) string {
	if config.IsGlob(name) {
		return strconv.Quote(name)
	}
	return name
}
