package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/daemon"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// complete checks the values of the flags, and asks for those that no flag sets.
func (s *starter) complete(std streams, cluster daemon.Survey) error {
	ask := asker{in: bufio.NewReader(std.in), out: std.err, silent: !asksTerminal(std.in)}
	if ask.silent && len(s.resources) == 0 {
		return misused("init needs --resources where standard input is no terminal, as in informd init --resources pods,deployments.apps")
	}
	if !ask.silent {
		fmt.Fprintf(std.err, "The API server at %s serves %s that informd can watch.\n", cluster.Server, number(len(cluster.Resources), "resource", "resources"))
	}
	if err := ask.value("Resources, as kubectl names them", "pods,deployments.apps", len(s.resources) > 0, func(text string) error {
		return s.setResources(fields(text), cluster.Resources)
	}); err != nil {
		return err
	}
	if err := s.setResources(fields(strings.Join(s.resources, ",")), cluster.Resources); err != nil {
		return err
	}
	setSink := func(text string) error { return s.setSink(text, std.program.Drivers) }
	if err := ask.value("Sink, "+alternatives(sinkTypes(std.program.Drivers)), stdoutSink, s.changed("sink"), setSink); err != nil {
		return err
	}
	if err := setSink(s.sink); err != nil {
		return err
	}
	if err := s.completeSink(ask); err != nil {
		return err
	}
	byDefault := clusterName(cluster.Context)
	if s.driver.Remote && slices.Contains(sharedNames(), byDefault) {
		byDefault = "" // two clusters of one name would mix their events in the stream
	}
	if err := ask.value("Name of the cluster in events", byDefault, s.cluster != "", s.setCluster); err != nil {
		return err
	}
	return s.setCluster(cmp.Or(s.cluster, byDefault))
}

// sharedNames are names of contexts that many clusters have.
func sharedNames() []string {
	return []string{"default", "kubernetes", "in-cluster", "local", "kubernetes-admin-kubernetes", "minikube", "docker-desktop", "kind-kind"}
}

// setCluster sets the name of the cluster.
func (s *starter) setCluster(text string) error {
	if text == "" {
		return misused("init needs --cluster: a name for this cluster that no other cluster has, as in --cluster prod-eu1")
	}
	s.cluster = text
	return nil
}

// setSink sets the type of the sink.
func (s *starter) setSink(text string, drivers []sink.Driver) error {
	i := slices.IndexFunc(drivers, func(d sink.Driver) bool { return d.Type == text })
	if i < 0 {
		return misused("--sink %q: it must be %s", text, alternatives(sinkTypes(drivers)))
	}
	s.sink, s.driver = text, drivers[i]
	return nil
}

func sinkTypes(drivers []sink.Driver) []string {
	types := make([]string, len(drivers))
	for i, d := range drivers {
		types[i] = d.Type
	}
	return types
}

// completeSink asks for the keys that the sink needs and no flag sets. What is wrong with the options of a type
// by default is that these are missing. Values are checked with the whole config.
func (s *starter) completeSink(ask asker) error {
	for _, option := range s.options {
		if key, value, ok := strings.Cut(option, "="); !ok || key == "" || value == "" {
			return misused("--set %q: it must be key=value", option)
		}
	}
	for _, missing := range s.driver.New().Validate() {
		key := missing.Key
		set := slices.ContainsFunc(s.options, func(option string) bool { return strings.HasPrefix(option, key+"=") })
		if !set && ask.silent {
			return misused("a sink of type %s needs --set %s=<value>: %s", s.sink, key, missing.Message)
		}
		if err := ask.value(key+" "+missing.Message, "", set, func(text string) error {
			if text == "" {
				return errors.New("there is no default: write a value, in YAML")
			}
			s.options = append(s.options, key+"="+text)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// setResources sets the resources, each under the name that kubectl has for it.
func (s *starter) setResources(said []string, served []dynwatch.ServedResource) error {
	var chosen []string
	for _, one := range said {
		name, err := servedName(one, served)
		if err != nil {
			return err
		}
		if !slices.Contains(chosen, name) {
			chosen = append(chosen, name)
		}
	}
	if len(chosen) == 0 {
		return misused("no resources: name some, as in pods,deployments.apps")
	}
	s.resources = chosen
	return nil
}

// servedName returns the name, as kubectl has it, of a served resource or of a wildcard
// that matches one. A name with a version keeps the version.
func servedName(said string, served []dynwatch.ServedResource) (string, error) {
	entry, parsed := config.ParseResourceName(said)
	var found, all []string
	for _, r := range served {
		for _, group := range append([]string{r.Group}, r.OtherGroups...) {
			full := config.KubectlName(group, r.Resource)
			all = append(all, full)
			switch {
			case said == r.Resource || said == event.GroupOrCore(group)+"/"+r.Resource:
				found = append(found, full)
			case !parsed || !entry.Matches(group, r.Resource):
			case entry.Wildcard() || entry.Version != "":
				return said, nil
			default:
				found = append(found, full)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		hint := cmp.Or(display.DidYouMean(said, all), ": kubectl api-resources lists its resources")
		return "", misused("the API server does not serve the resource %q%s", said, hint)
	default:
		if slices.Contains(found, said) { // pods before pods.metrics.k8s.io
			return said, nil
		}
		return "", misused("the resource %q is ambiguous: name one of %s", said, strings.Join(found, ", "))
	}
}

// clusterName makes a name for a cluster of the name of a context.
func clusterName(context string) string {
	name := regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(context, "-")
	const most = 128
	return cmp.Or(strings.Trim(name[:min(len(name), most)], "-._"), "default")
}

// asker asks a person for values.
type asker struct {
	in  *bufio.Reader
	out io.Writer
	// silent: there is no person.
	silent bool
}

// value asks for a value until set accepts one; an empty answer is the default. It does
// not ask if the value is given, or if there is no person.
func (a asker) value(question, byDefault string, given bool, set func(string) error) error {
	if given || a.silent {
		return nil
	}
	if byDefault != "" {
		question += " [" + byDefault + "]"
	}
	for {
		fmt.Fprintf(a.out, "%s: ", question)
		answer, err := a.in.ReadString('\n')
		if err != nil && answer == "" {
			return fmt.Errorf("read the answer: %w", err)
		}
		err = set(cmp.Or(strings.TrimSpace(answer), byDefault))
		if err == nil {
			return nil
		}
		fmt.Fprintf(a.out, "%s\n", visible(err.Error()))
	}
}

// fields splits a list with commas.
func fields(text string) (all []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// confirm asks a question on a terminal. Any answer but yes is an error, and so is a
// standard input that is no terminal.
func confirm(std streams, question string) error {
	if !asksTerminal(std.in) {
		return misused("standard input is no terminal: confirm with --yes")
	}
	fmt.Fprint(std.err, question+" [y/N] ")
	answer, err := bufio.NewReader(std.in).ReadString('\n')
	if err != nil && answer == "" {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed; informd changed nothing")
}

// keyboard is an input with a person behind it; tests have their own.
type keyboard interface{ Interactive() bool }

// asksTerminal reports whether a person can answer questions.
func asksTerminal(in io.Reader) bool {
	if k, ok := in.(keyboard); ok {
		return k.Interactive()
	}
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
