package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/cli/internal/terminal"
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
OBJECTS     number of objects in these namespaces
SIZE        size of a list of them; ~ marks an estimate, > a lower bound
MISSING     verbs that the credentials lack
REACH       how long informd can be down without a gap, as a number of revisions of the
            cluster: from the watch cache, and from etcd`,
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
			p := newPlan(c.Cluster, server, planned)
			return errors.Join(output.show(std.out, p.shown()), p.verdict())
		},
	}
	configFlag(cmd)
	output = outputFlag(cmd)
	return cmd
}

// shown is the plan in each format.
func (p *plan) shown() shown {
	s := shown{document: p, table: func(out io.Writer) error { return printPlan(out, p) }}
	for i := range p.Targets {
		s.names = append(s.names, p.Targets[i].Target)
	}
	return s
}

// plan is the document that is shown. Its texts are fit for a terminal.
type plan struct {
	Cluster string          `json:"cluster"`
	Server  string          `json:"server"`
	Targets []plannedTarget `json:"targets"`
	// Optional is what the credentials lack and informd works without.
	Optional []missingAccess `json:"optional,omitempty"`
}

// missingAccess are verbs on a resource, or on one object of it.
type missingAccess struct {
	Group     string   `json:"group"`
	Resource  string   `json:"resource"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name,omitempty"`
	Verbs     []string `json:"verbs"`
	Without   string   `json:"without"`
}

// plannedTarget is a target's part of it. What is not known is left out.
type plannedTarget struct {
	Target    string `json:"target"`
	Group     string `json:"group"`
	Version   string `json:"version,omitempty"`
	Resource  string `json:"resource"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Mode      string `json:"mode"`
	// Scope is "namespaced" if it is one of Namespace alone, else "cluster".
	Scope         string `json:"scope"`
	ClusterScoped bool   `json:"clusterScoped,omitempty"`
	// What a watch of the cluster covers, and how many namespaces that are now.
	Namespaces         []string `json:"namespaces,omitempty"`
	ExcludeNamespaces  []string `json:"excludeNamespaces,omitempty"`
	NamespaceSelector  string   `json:"namespaceSelector,omitempty"`
	MatchingNamespaces *int     `json:"matchingNamespaces,omitempty"`
	State              string   `json:"state"`
	// Reason says why the state is what it is, or what could not be found out.
	Reason       string   `json:"reason,omitempty"`
	MissingVerbs []string `json:"missingVerbs,omitempty"`
	// MissingNamespaceVerbs are those on namespaces, for NamespaceSelector.
	MissingNamespaceVerbs []string `json:"missingNamespaceVerbs,omitempty"`
	// MoreObjects: there are more than Objects, and Bytes is of those. BytesEstimated:
	// Bytes is not of all objects, but by the size of some.
	Objects          *uint64 `json:"objects,omitempty"`
	MoreObjects      bool    `json:"moreObjects,omitempty"`
	ObjectsEstimated bool    `json:"objectsEstimated,omitempty"`
	Bytes            *uint64 `json:"bytes,omitempty"`
	BytesEstimated   bool    `json:"bytesEstimated,omitempty"`
	// ResourceVersion is the newest revision of the cluster, WatchFrom the oldest one
	// to watch from, EtcdFrom about the oldest one that etcd has.
	ResourceVersion uint64 `json:"resourceVersion,omitempty,string"`
	WatchFrom       uint64 `json:"watchFrom,omitempty,string"`
	EtcdFrom        uint64 `json:"etcdFrom,omitempty,string"`
	// WatchReach and EtcdReach are how many revisions lie between.
	WatchReach *uint64 `json:"watchReach,omitempty"`
	EtcdReach  *uint64 `json:"etcdReach,omitempty"`
}

func newPlan(cluster, server string, planned dynwatch.WatchPlan) *plan {
	p := &plan{Cluster: terminal.Visible(cluster), Server: terminal.Visible(server), Targets: make([]plannedTarget, len(planned.Targets))}
	for i := range planned.Targets {
		t := &planned.Targets[i]
		p.Targets[i] = plannedTarget{
			Target: terminal.Visible(t.Name), Group: t.Group, Version: terminal.Visible(t.Version), Resource: t.Resource, Kind: terminal.Visible(t.Kind),
			Namespace: t.Namespace, Mode: string(t.Mode), State: string(t.State), Reason: terminal.Visible(t.Reason),
			Scope: string(t.Scope), ClusterScoped: t.ClusterScoped, Namespaces: t.Namespaces, ExcludeNamespaces: t.ExcludeNamespaces,
			NamespaceSelector: t.NamespaceSelector, MatchingNamespaces: t.MatchingNamespaces,
			MissingVerbs: t.MissingVerbs, MissingNamespaceVerbs: t.MissingNamespaceVerbs,
			ResourceVersion: t.ResourceVersion, WatchFrom: t.WatchFrom, EtcdFrom: t.EtcdFrom,
			WatchReach: reach(t.ResourceVersion, t.WatchFrom), EtcdReach: reach(t.ResourceVersion, t.EtcdFrom),
		}
		if t.ResourceVersion != 0 {
			p.Targets[i].setFigures(t)
		}
	}
	for _, m := range planned.Optional {
		p.Optional = append(p.Optional, missingAccess(m))
	}
	return p
}

func (t *plannedTarget) setFigures(of *dynwatch.TargetPlan) {
	t.Objects, t.Bytes = new(uint64(max(of.Objects, 0))), &of.Bytes
	t.MoreObjects, t.ObjectsEstimated, t.BytesEstimated = of.More, of.Estimated, of.Weighed < of.Objects
}

// cannotCome reports whether the resource is not served and, unless the API server itself
// is replaced, will not be: the group of a CustomResourceDefinition has a dot.
func (t *plannedTarget) cannotCome() bool {
	return t.State == string(dynwatch.Waiting) && !strings.ContainsAny(t.Group, ".*?[") && !strings.ContainsAny(t.Resource, "*?[")
}

// lacksPermission reports whether a verb is missing without which there is no target.
func (t *plannedTarget) lacksPermission() bool {
	return len(t.MissingVerbs) > 0 || len(t.MissingNamespaceVerbs) > 0
}

// verdict is the error that the config would not work as it is. That a resource is
// not there yet is none, if it can come: it is waited for.
func (p *plan) verdict() error {
	missing, unserved, others := 0, 0, 0
	for i := range p.Targets {
		t := &p.Targets[i]
		switch {
		case t.lacksPermission():
			missing++
		case t.cannotCome():
			unserved++
		case t.State != string(dynwatch.Ready) && t.State != string(dynwatch.Waiting):
			others++
		}
	}
	var why []string
	if missing > 0 {
		why = append(why, terminal.Number(missing, "target lacks", "targets lack")+" permissions (see MISSING; informd rbac prints them)")
	}
	if unserved > 0 {
		why = append(why, terminal.Number(unserved, "resource does", "resources do")+" not exist in a built-in API group, where no CustomResourceDefinition can add any: check the name")
	}
	if others > 0 {
		why = append(why, terminal.Number(others, "target", "targets")+" cannot be watched for another reason (see REASON)")
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("informd cannot watch everything: %s", strings.Join(why, "; "))
}

// reach is how many revisions there are from one to the newest, nil if not known.
func reach(newest, from uint64) *uint64 {
	if from == 0 || from > newest {
		return nil
	}
	return new(newest - from)
}
