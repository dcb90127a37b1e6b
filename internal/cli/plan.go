package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/daemon"
	"github.com/informd/informd/pkg/dynwatch"
)

func planCommand(std streams) *cobra.Command {
	var output *format
	cmd := &cobra.Command{
		Use: "plan", Short: "show what informd would watch, and which permissions are missing", GroupID: setUpGroup,
		Long: `informd plan asks the API server, with a few small requests per resource. It changes
nothing and can run beside an informd with the same config. It shows one row per target,
and one row for a wildcard without any.

SCOPE       one watch of the cluster, or one per namespace
NAMESPACES  the namespaces of the target, and how many match now
STATE       ready, or why informd cannot watch the resource now
OBJECTS     number of objects in these namespaces, as the API server counts them; with a
            selector it does not: > marks a lower bound
MISSING     verbs that the credentials lack`,
		Example: `informd plan -c config.yaml
informd plan -o json | jq '.targets[] | select(.state != "ready")'`,
		Annotations: exitCodes("0 informd can watch everything, now or when it is served, " +
			"1 informd cannot watch everything, or the API server does not answer, 2 wrong usage or config"),
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := std.loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			server, planned, err := daemon.Plan(cmd.Context(), c)
			if err != nil {
				return err
			}
			p := newPlanReport(c.Cluster, server, planned)
			return errors.Join(output.show(std.out, p, func(out io.Writer) error { return printPlan(out, p) }), p.Failure())
		},
	}
	configFlag(cmd)
	output = outputFlag(cmd)
	return cmd
}

// planReport is the document of a plan.
type planReport struct {
	Cluster string          `json:"cluster"`
	Server  string          `json:"server"`
	Targets []plannedTarget `json:"targets"`
	// Optional is what the credentials lack and informd works without.
	Optional []dynwatch.MissingAccess `json:"optional,omitempty"`
}

// plannedTarget is a target's part of it.
type plannedTarget struct {
	dynwatch.TargetPlan

	// Objects is nil if the number is not known.
	Objects *int `json:"objects,omitempty"`
}

// newPlanReport returns the report of a plan of the cluster that server serves.
func newPlanReport(cluster, server string, planned dynwatch.WatchPlan) *planReport {
	p := &planReport{Cluster: cluster, Server: server, Targets: make([]plannedTarget, len(planned.Targets)), Optional: planned.Optional}
	for i, t := range planned.Targets {
		p.Targets[i].TargetPlan = t
		if t.ResourceVersion != 0 {
			p.Targets[i].Objects = new(max(t.Objects, 0))
		}
	}
	return p
}

// cannotCome reports whether the resource is not served and, unless the API server itself
// is replaced, will not be: the group of a CustomResourceDefinition has a dot.
func (t *plannedTarget) cannotCome() bool {
	return t.State == dynwatch.Waiting && !strings.Contains(t.Group, ".") && !config.IsGlob(t.Group) && !config.IsGlob(t.Resource)
}

// lacksPermission reports whether a verb is missing without which there is no target.
func (t *plannedTarget) lacksPermission() bool {
	return len(t.MissingVerbs) > 0 || len(t.MissingNamespaceVerbs) > 0
}

// Failure is the error that the config would not work as it is. That a resource is
// not there yet is none, if it can come: it is waited for.
func (p *planReport) Failure() error {
	missing, unserved, others := 0, 0, 0
	for i := range p.Targets {
		t := &p.Targets[i]
		switch {
		case t.lacksPermission():
			missing++
		case t.cannotCome():
			unserved++
		case t.State != dynwatch.Ready && t.State != dynwatch.Waiting:
			others++
		}
	}
	var why []string
	if missing > 0 {
		why = append(why, number(missing, "target lacks", "targets lack")+" permissions (see MISSING; informd rbac prints them)")
	}
	if unserved > 0 {
		why = append(why, number(unserved, "resource does", "resources do")+" not exist in a built-in API group, where no CustomResourceDefinition can add any: check the name")
	}
	if others > 0 {
		why = append(why, number(others, "target", "targets")+" cannot be watched for another reason (see REASON)")
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("informd cannot watch everything: %s", strings.Join(why, "; "))
}

// printPlan writes the report for people: a row per target, and what to do if permissions
// are missing.
func printPlan(out io.Writer, p *planReport) error {
	ready := 0
	for i := range p.Targets {
		if p.Targets[i].State == dynwatch.Ready {
			ready++
		}
	}
	fmt.Fprintf(out, "cluster %s at %s: %s, %d ready\n", visible(p.Cluster), visible(p.Server), number(len(p.Targets), "target", "targets"), ready)
	if err := printTable(out, planRows(p.Targets)); err != nil {
		return err
	}
	if slices.ContainsFunc(p.Targets, func(t plannedTarget) bool { return t.lacksPermission() }) {
		fmt.Fprint(out, permissionsMissing)
	}
	if len(p.Optional) > 0 {
		fmt.Fprint(out, "\nNot required, and missing, too; `informd rbac` prints them as well:\n")
	}
	for _, m := range p.Optional {
		fmt.Fprintf(out, "- %s on %s: without, %s.\n", strings.Join(m.Verbs, ", "), accessObject(m), m.Without)
	}
	return nil
}

// accessObject names what the verbs are about, as kubectl does.
func accessObject(m dynwatch.MissingAccess) string {
	object := m.Resource
	if m.Group != "" {
		object += "." + m.Group
	}
	if m.Name != "" {
		object += "/" + m.Name
	}
	if m.Namespace != "" {
		object += " in " + m.Namespace
	}
	return object
}

func planRows(targets []plannedTarget) [][]string {
	rows := [][]string{{"TARGET", "VERSION", "MODE", "SCOPE", "NAMESPACES", "STATE", "OBJECTS", "MISSING", "REASON"}}
	for i := range targets {
		t := &targets[i]
		objects := ""
		if t.Objects != nil {
			objects = strconv.Itoa(*t.Objects)
			if t.More {
				objects = ">" + objects
			}
		}
		rows = append(rows, []string{
			t.Name, t.Version, string(t.Mode), string(t.Scope), t.covers(), string(t.State), objects, t.missing(), t.Reason,
		})
	}
	return rows
}

// covers says in short which namespaces are meant.
func (t *plannedTarget) covers() string {
	switch {
	case t.ClusterScoped:
		return ""
	case t.Namespace != "":
		return t.Namespace
	}
	text := few(t.Namespaces)
	if len(t.ExcludeNamespaces) > 0 {
		text = cmp.Or(text, "all") + " without " + few(t.ExcludeNamespaces)
	}
	if t.NamespaceSelector != "" {
		text = strings.TrimPrefix(text+", labels "+shortened(t.NamespaceSelector), ", ")
	}
	text = cmp.Or(text, "all")
	if t.MatchingNamespaces != nil {
		text += fmt.Sprintf(" (%d now)", *t.MatchingNamespaces)
	}
	return text
}

// few shows some names of a list that may be long.
func few(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ",") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ",")
}

// missing names the verbs, those on the resource itself first.
func (t *plannedTarget) missing() string {
	verbs := strings.Join(t.MissingVerbs, ",")
	if len(t.MissingNamespaceVerbs) > 0 {
		verbs = strings.TrimPrefix(verbs+"; namespaces: "+strings.Join(t.MissingNamespaceVerbs, ","), "; ")
	}
	return verbs
}
