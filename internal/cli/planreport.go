package cli

import (
	"fmt"
	"strings"

	"github.com/informd/informd/pkg/dynwatch"
)

// planReport is the document of a plan. Its texts are safe for a terminal.
type planReport struct {
	Cluster string          `json:"cluster"`
	Server  string          `json:"server"`
	Targets []plannedTarget `json:"targets"`
	// Optional is what the credentials lack and informd works without.
	Optional []dynwatch.MissingAccess `json:"optional,omitempty"`
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
	// MoreObjects: there are more than Objects.
	Objects     *uint64 `json:"objects,omitempty"`
	MoreObjects bool    `json:"moreObjects,omitempty"`
	// ResourceVersion is the newest revision of the cluster.
	ResourceVersion uint64 `json:"resourceVersion,omitempty,string"`
}

// newPlanReport returns the report of a plan of the cluster that server serves.
func newPlanReport(cluster, server string, planned dynwatch.WatchPlan) *planReport {
	p := &planReport{Cluster: visible(cluster), Server: visible(server), Targets: make([]plannedTarget, len(planned.Targets)), Optional: planned.Optional}
	for i := range planned.Targets {
		t := &planned.Targets[i]
		p.Targets[i] = plannedTarget{
			Target: visible(t.Name), Group: t.Group, Version: visible(t.Version), Resource: t.Resource, Kind: visible(t.Kind),
			Namespace: t.Namespace, Mode: string(t.Mode), State: string(t.State), Reason: visible(t.Reason),
			Scope: string(t.Scope), ClusterScoped: t.ClusterScoped, Namespaces: t.Namespaces, ExcludeNamespaces: t.ExcludeNamespaces,
			NamespaceSelector: t.NamespaceSelector, MatchingNamespaces: t.MatchingNamespaces,
			MissingVerbs: t.MissingVerbs, MissingNamespaceVerbs: t.MissingNamespaceVerbs,
			ResourceVersion: t.ResourceVersion, MoreObjects: t.More,
		}
		if t.ResourceVersion != 0 {
			p.Targets[i].Objects = new(uint64(max(t.Objects, 0)))
		}
	}
	return p
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
		case t.State != string(dynwatch.Ready) && t.State != string(dynwatch.Waiting):
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
