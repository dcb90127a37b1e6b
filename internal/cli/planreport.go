package cli

import (
	"fmt"
	"strings"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/dynwatch"
)

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
