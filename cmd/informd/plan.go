package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/cmd/informd/internal/daemon"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/sink/drivers"
)

func planCommand() command {
	return command{
		name: "plan", summary: "show what would be watched: how much it is, what is missing, how far back it goes",
		long: `It asks the API server, with a few small requests per resource, and changes nothing;
an informd with the same config may be running. One row per target: STATE is ready, or
what keeps it from being watched now; OBJECTS is how many there are, SIZE an estimate
of what a list of them has, MISSING the verbs that the credentials lack. REACH is how
long informd may be away and go on without a gap: that many revisions of the cluster
(changes of anything in it), by a watch, and about that many by reading etcd.`,
		examples: `informd plan -c config.yaml
informd plan -o json | jq '.targets[] | select(.state != "ready")'`,
		exits: "0 ok, also if something is missing, 1 the API server cannot be asked, 2 wrong usage or config",
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
			server, targets, err := daemon.Plan(ctx, c)
			if err != nil {
				return err
			}
			return show(io.out, newPlan(c.Cluster, server, targets))
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
	State     string `json:"state"`
	// Reason says why the state is what it is, or what could not be found out.
	Reason       string   `json:"reason,omitempty"`
	MissingVerbs []string `json:"missingVerbs,omitempty"`
	// MoreObjects: there are more than Objects, and Bytes is of those.
	Objects     *uint64 `json:"objects,omitempty"`
	MoreObjects bool    `json:"moreObjects,omitempty"`
	Bytes       *uint64 `json:"bytes,omitempty"`
	// ResourceVersion is the newest revision of the cluster, WatchFrom the oldest one
	// to watch from, EtcdFrom about the oldest one that etcd has.
	ResourceVersion uint64 `json:"resourceVersion,omitempty,string"`
	WatchFrom       uint64 `json:"watchFrom,omitempty,string"`
	EtcdFrom        uint64 `json:"etcdFrom,omitempty,string"`
	// WatchReach and EtcdReach are how many revisions lie between.
	WatchReach *uint64 `json:"watchReach,omitempty"`
	EtcdReach  *uint64 `json:"etcdReach,omitempty"`
}

func newPlan(cluster, server string, targets []dynwatch.TargetPlan) *plan {
	p := &plan{Cluster: visible(cluster), Server: visible(server), Targets: make([]plannedTarget, len(targets))}
	for i := range targets {
		t := &targets[i]
		p.Targets[i] = plannedTarget{
			Target: visible(t.Name), Group: t.Group, Version: visible(t.Version), Resource: t.Resource, Kind: visible(t.Kind),
			Namespace: t.Namespace, Mode: string(t.Mode), State: string(t.State), Reason: visible(t.Reason), MissingVerbs: t.MissingVerbs,
			MoreObjects: t.More, ResourceVersion: t.ResourceVersion, WatchFrom: t.WatchFrom, EtcdFrom: t.EtcdFrom,
			WatchReach: reach(t.ResourceVersion, t.WatchFrom), EtcdReach: reach(t.ResourceVersion, t.EtcdFrom),
		}
		if t.ResourceVersion != 0 {
			p.Targets[i].Objects, p.Targets[i].Bytes = new(uint64(max(t.Objects, 0))), &t.Bytes
		}
	}
	return p
}

// reach is how many revisions there are from one to the newest, nil if not known.
func reach(newest, from uint64) *uint64 {
	if from == 0 || from > newest {
		return nil
	}
	return new(newest - from)
}

func printPlanJSON(out io.Writer, p *plan) error {
	document := json.NewEncoder(out)
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
