package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/cmd/informd/internal/daemon"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink/drivers"
)

// errNobody is the outcome of a try of what no sink receives.
var errNobody = errors.New("no sink receives it")

func tryCommand() command {
	return command{
		name: "try", summary: "show what would become of an object: entry, event, and the bytes that each sink gets; contacts nothing",
		long: `It takes an object from a file, in YAML or JSON, and shows which entry of resources takes
it, or why none does; the event, normalised; and for each sink what it would send, to
the byte, or which key of its only stops it. It runs the code that a daemon runs, without
a cluster: what only that knows is said, and taken to be so. The time and what depends
on it differ with every run; the object's keys are in the order of the file if that is
JSON, else sorted. With --old the change is from that state to the one of --file.`,
		examples: `informd try -c config.yaml -f deployment.yaml
informd try -f web.yaml --old web-before.yaml
kubectl get pod web -o json | informd try -f - --op deleted
informd try -f sensor.yaml --resource example.com/sensors -o json | jq -r '.events[].sinks[].sends.body'`,
		exits: "0 at least one sink receives it, 1 none does, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.StringP("file", "f", "", `the object, "-" for standard input`)
			flags.String("old", "", "its state before")
			flags.String("op", "", "added, modified or deleted (default: modified with --old, else added)")
			flags.String("resource", "", "the plural name, or <group or core>/<plural name>, if it cannot be told from the kind")
			flags.StringP("output", "o", "text", "text or json")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			show, ok := tryPrinters()[flags.Lookup("output").Value.String()]
			if !ok {
				return misused("--output %q: text or json", flags.Lookup("output").Value)
			}
			change, notes, err := readChange(flags)
			if err != nil {
				return err
			}
			c, err := config.Load(config.Source{Flags: flags, Drivers: drivers.All()})
			if err != nil {
				return err
			}
			trial, err := daemon.Try(ctx, c, change)
			if err != nil {
				return err
			}
			trial.Notes = append(notes, trial.Notes...)
			err = show(io.out, newTrial(c, change, trial))
			if !trial.Received() {
				err = errors.Join(err, errNobody)
			}
			return err
		},
	}
}

// tryPrinters are the values of --output.
func tryPrinters() map[string]func(io.Writer, *trial) error {
	return map[string]func(io.Writer, *trial) error{"text": printTrial, "json": printTrialJSON}
}

// readChange reads what is to be tried.
func readChange(flags *pflag.FlagSet) (change dynwatch.Change, notes []string, err error) {
	value := func(flag string) string { return flags.Lookup(flag).Value.String() }
	if value("file") == "" {
		return change, nil, misused("--file is required: the object to try")
	}
	object, err := readTried(value("file"))
	if err != nil {
		return change, nil, err
	}
	var old *tried
	change.Op = event.Added
	if file := value("old"); file != "" {
		if old, err = readTried(file); err != nil {
			return change, nil, err
		}
		if !object.same(old) {
			return change, nil, misused("%s is not an earlier state of the object in %s: kind, namespace, name and uid must be the same", file, object.file)
		}
		change.Op = event.Modified
	}
	switch op := event.Op(value("op")); {
	case op == "":
	case op != event.Added && op != event.Modified && op != event.Deleted:
		return change, nil, misused("--op %q: added, modified or deleted", op)
	case op == event.Added && old != nil:
		return change, nil, misused("--op added: an object that is added has no state before, remove --old")
	default:
		change.Op = op
	}
	if notes, err = object.complete(old); err != nil {
		return change, nil, err
	}
	served, err := object.resource(value("resource"))
	if err != nil {
		return change, nil, err
	}
	if value("resource") == "" {
		notes = append(notes, "resource "+served.Resource+" is a guess from kind "+object.Kind+"; --resource says otherwise")
	}
	change.Group, change.Version, change.Resource, change.Kind = served.Group, served.Version, served.Resource, object.Kind
	change.Object = object.raw
	if old != nil {
		change.Old = old.raw
	}
	return change, notes, nil
}

// resource is where the object is served, by what the user says of it.
func (t *tried) resource(said string) (schema.GroupVersionResource, error) {
	served := t.served()
	if said == "" {
		return served, nil
	}
	group, plural, ok := strings.Cut(said, "/")
	if !ok {
		group, plural = event.GroupOrCore(served.Group), said
	}
	if plural == "" || strings.Contains(plural, "/") || group != event.GroupOrCore(served.Group) {
		return served, misused("--resource %q: a plural name, or %s/ and one, as apiVersion %s has it", said, event.GroupOrCore(served.Group), t.APIVersion)
	}
	served.Resource = plural
	return served, nil
}
