package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/cmd/informd/internal/daemon"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/sink/drivers"
)

func planCommand() command {
	return command{
		name: "plan", summary: "show what would be watched: how much it is, what is missing, how far back it goes",
		long: `It asks the API server, with a few small requests per resource, and changes nothing;
an informd with the same config may be running. One row per target, and one for a
wildcard that has none. WATCH is one watch of the whole cluster, or of a namespace;
NAMESPACES what it covers, and how many match now. STATE is ready, or what keeps it from
being watched now; OBJECTS is how many there are in these namespaces, SIZE what a list
of them has, with ~ if it is an estimate and > if there are more; MISSING the verbs that
the credentials lack. REACH is how long informd may be away and go on without a gap:
that many revisions of the cluster (changes of anything in it), by a watch, and about
that many by reading etcd.`,
		examples: `informd plan -c config.yaml
informd plan -o json | jq '.targets[] | select(.state != "ready")'`,
		exits: "0 everything could be watched, now or once it is served, 1 something could not, or is not served and cannot come, or the API server cannot be asked, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.StringP("output", "o", "table", "table, json or yaml")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			show, ok := planPrinters()[flags.Lookup("output").Value.String()]
			if !ok {
				return misused("--output %q: table, json or yaml", flags.Lookup("output").Value)
			}
			c, err := config.Load(config.Source{Flags: flags, Drivers: drivers.All()})
			if err != nil {
				return err
			}
			server, planned, err := daemon.Plan(ctx, c)
			if err != nil {
				return err
			}
			p := newPlan(c.Cluster, server, planned)
			return errors.Join(show(io.out, p), p.verdict())
		},
	}
}

// planPrinters are the values of --output.
func planPrinters() map[string]func(io.Writer, *plan) error {
	return map[string]func(io.Writer, *plan) error{"table": printPlan, "json": printPlanJSON, "yaml": printPlanYAML}
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
	// Watch is "namespaced" if it is one of Namespace alone, else "cluster".
	Watch         string `json:"watch"`
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
	p := &plan{Cluster: visible(cluster), Server: visible(server), Targets: make([]plannedTarget, len(planned.Targets))}
	for i := range planned.Targets {
		t := &planned.Targets[i]
		p.Targets[i] = plannedTarget{
			Target: visible(t.Name), Group: t.Group, Version: visible(t.Version), Resource: t.Resource, Kind: visible(t.Kind),
			Namespace: t.Namespace, Mode: string(t.Mode), State: string(t.State), Reason: visible(t.Reason + meant(t)),
			Watch: string(t.Scope), ClusterScoped: t.ClusterScoped, Namespaces: t.Namespaces, ExcludeNamespaces: t.ExcludeNamespaces,
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

// meant names the resource that may be meant by one that is not served.
func meant(t *dynwatch.TargetPlan) string {
	if near, ok := config.Nearest(t.Resource, t.Others); ok {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
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
		why = append(why, fmt.Sprintf("%d lack permissions", missing))
	}
	if unserved > 0 {
		why = append(why, fmt.Sprintf("%d are not served, in groups that no CustomResourceDefinition can be of", unserved))
	}
	if others > 0 {
		why = append(why, fmt.Sprintf("%d cannot be watched for another reason", others))
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("not everything could be watched: of %d targets %s", len(p.Targets), strings.Join(why, ", "))
}

// reach is how many revisions there are from one to the newest, nil if not known.
func reach(newest, from uint64) *uint64 {
	if from == 0 || from > newest {
		return nil
	}
	return new(newest - from)
}

func printPlanJSON(out io.Writer, p *plan) error {
	document := json.NewEncoder(display.JSONWriter(out))
	document.SetIndent("", "  ")
	document.SetEscapeHTML(false)
	return document.Encode(p)
}

func printPlanYAML(out io.Writer, p *plan) error {
	document, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	_, err = out.Write(document)
	return err
}
