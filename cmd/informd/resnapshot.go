package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/admin"
	"github.com/informd/informd/cmd/informd/internal/config"
)

func resnapshotCommand() command {
	return command{
		name: "resnapshot", summary: "have a running informd announce all objects of a resource anew, to every sink or to one",
		long: `It asks the informd that runs with this config, through admin.socket, to announce
each object of the resource as a snapshot. The events begin and synced are around them.
All of them have the same run, as an attribute and in the id. The command waits until the
run is complete.

Without --sink informd lists the resource, and every sink gets it. If informd ends before
the run does, the command fails: ask again. With --sink that sink alone gets the last
state of each object in the journal, and nothing is asked of the API server. informd keeps
the request: if the sink is down, or informd ends, it makes the re-snapshot later, with the
same run. If the sink stays down, the command ends after 15s; informd status shows what is
pending. It needs journal.type embedded or nats.`,
		examples: "informd resnapshot --resource apps/deployments\ninformd resnapshot --resource pods --sink bus",
		exits:    "0 ok or pending, 1 failure or not every object, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.String("resource", "", "<group>/<resource>, as in apps/deployments, or <resource>")
			flags.String("sink", "", "name of the only sink that gets them, from the journal; absent = every sink")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			resource := flags.Lookup("resource").Value.String()
			sink := flags.Lookup("sink")
			switch {
			case resource == "":
				return misused("resnapshot needs --resource, as in informd resnapshot --resource apps/deployments")
			case sink.Changed && sink.Value.String() == "":
				return misused("--sink is empty: name a sink, or leave it out to have every sink get it")
			}
			c, err := newClient(ctx, flags)
			if err != nil {
				return err
			}
			outcomes, err := c.resnapshot(ctx, resource, sink.Value.String())
			if err != nil {
				return err
			}
			return printResnapshots(io, outcomes)
		},
	}
}

func (c client) resnapshot(ctx context.Context, resource, sink string) (outcomes []admin.Resnapshot, err error) {
	query := url.Values{"resource": {resource}}
	if sink != "" {
		query.Set("sink", sink)
	}
	err = c.do(ctx, http.MethodPost, "/resnapshot", query, func(body io.Reader) error {
		return json.NewDecoder(body).Decode(&outcomes)
	})
	return outcomes, err
}

func printResnapshots(io streams, outcomes []admin.Resnapshot) error {
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tOBJECTS\tRUN\tERROR")
	var incomplete error
	for _, o := range outcomes {
		objects, run := strconv.Itoa(o.Objects), strconv.FormatUint(o.Run, 10)
		if o.Error != "" && o.Objects == 0 {
			objects, run = "-", "-" // nothing was announced
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", o.Target, objects, run, visible(o.Error+o.Pending))
		if o.Error != "" {
			incomplete = errors.New("not every object was announced anew")
		}
	}
	return errors.Join(table.Flush(), incomplete)
}
