package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/daemon"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

func tryCommand(std streams) *cobra.Command {
	var from tryFlags
	var output *format
	cmd := &cobra.Command{
		Use: "try", Short: "show the event of an object, and the bytes that each sink gets", GroupID: setUpGroup,
		Long: `informd try reads an object from a file, in YAML or JSON, and contacts no server. It shows
the entry of resources that matches, or why no entry does; the event; and for each sink
the exact bytes, or the key of its match that excludes the event. It runs the code of
informd run, and names each assumption about the cluster. The time, and values that depend
on it, differ with every run. The keys of the object are in the order of a JSON file, and
sorted for YAML. With --old, the event is the change from that state to that of --file.`,
		Example: `informd try -c config.yaml -f deployment.yaml
informd try -f web.yaml --old web-before.yaml
kubectl get pod web -o json | informd try -f - --op deleted
informd try -f sensor.yaml --resource sensors.example.com -o json | jq -r '.events[].sinks[].sends.body'`,
		Annotations: exitCodes("0 at least one sink receives the event, 1 no sink does, 2 wrong usage or config"),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			change, notes, err := readChange(std.in, from)
			if err != nil {
				return err
			}
			c, err := std.loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			t, err := daemon.Try(cmd.Context(), c, change, notes)
			if err != nil {
				return err
			}
			err = output.show(std.out, t, func(out io.Writer) error { return printTrial(out, t) })
			if !t.Received() {
				err = errors.Join(err, errors.New("no sink receives it"))
			}
			return err
		},
	}
	configFlag(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&from.file, "file", "f", "", `file with the object, "-" for standard input`)
	flags.StringVar(&from.old, "old", "", "file with the object before the change")
	flags.StringVar(&from.op, "op", "", "added, modified or deleted (default: modified with --old, else added)")
	flags.StringVar(&from.resource, "resource", "", "resource of the object, as in sensors.example.com (default: guessed from the kind)")
	complete(cmd, "op", string(event.Added), string(event.Modified), string(event.Deleted))
	output = outputFlag(cmd, formatText, formatJSON, formatYAML)
	return cmd
}

// tryFlags are the flags that name the change.
type tryFlags struct{ file, old, op, resource string }

// readChange reads the change that the flags name.
func readChange(in io.Reader, from tryFlags) (change dynwatch.Change, notes []string, err error) {
	if from.file == "" {
		return change, nil, misused("--file is required: the object to try")
	}
	object, err := readTried(in, from.file)
	if err != nil {
		return change, nil, err
	}
	var old *triedObject
	change.Op = event.Added
	if file := from.old; file != "" {
		if old, err = readTried(in, file); err != nil {
			return change, nil, err
		}
		if !object.Same(old) {
			return change, nil, misused("%s is not an earlier state of the object in %s: kind, namespace, name and uid must be the same", file, object.File)
		}
		change.Op = event.Modified
	}
	switch op := event.Op(from.op); {
	case op == "":
	case op != event.Added && op != event.Modified && op != event.Deleted:
		return change, nil, misused("--op %q: added, modified or deleted", op)
	case op == event.Added && old != nil:
		return change, nil, misused("--op added: an object that is added has no state before, remove --old")
	default:
		change.Op = op
	}
	if notes, err = object.Complete(old); err != nil {
		return change, nil, err
	}
	served, err := resourceOf(object, from.resource)
	if err != nil {
		return change, nil, err
	}
	if from.resource == "" {
		notes = append(notes, "resource "+served.Resource+" is a guess from kind "+object.Kind+"; --resource overrides it")
	}
	change.Group, change.Version, change.Resource, change.Kind = served.Group, served.Version, served.Resource, object.Kind
	change.Object = object.Raw
	if old != nil {
		change.Old = old.Raw
	}
	return change, notes, nil
}

// resourceOf returns where the object is served, by its apiVersion and by what the user says of it: a plural
// name, alone or with the group as kubectl or a target has it. Without that, it is the plural that the kind
// most likely has.
func resourceOf(t *triedObject, said string) (schema.GroupVersionResource, error) {
	group, _ := schema.ParseGroupVersion(t.APIVersion) // readTried has checked it
	served, _ := meta.UnsafeGuessKindToResource(group.WithKind(t.Kind))
	if said == "" {
		return served, nil
	}
	own := event.GroupOrCore(served.Group)
	plural, ok := strings.CutPrefix(said, own+"/")
	if !ok {
		plural = strings.TrimSuffix(said, "."+own)
	}
	if plural == "" || strings.ContainsAny(plural, "/.") {
		return served, misused("--resource %q: it must be a plural name, or one with the group of apiVersion %s, as in %s.%s", said, t.APIVersion, served.Resource, own)
	}
	served.Resource = plural
	return served, nil
}

// printTrial writes a report for people, each step below the one that it follows from.
func printTrial(out io.Writer, t *daemon.Trial) error {
	fmt.Fprintf(out, "%s/%s, kind %s, version %s: %s\n", event.GroupOrCore(t.Group), t.Resource, visible(t.Kind), visible(t.Version), t.Op)
	for _, note := range t.Notes {
		fmt.Fprintf(out, "  note: %s\n", visible(note))
	}
	fmt.Fprintln(out)
	for i, e := range t.Entries {
		outcome := "does not take it: " + visible(e.Reason)
		switch {
		case e.Takes:
			outcome = "takes it, target " + t.Target
		case e.Reason == "":
			outcome = "does not take it: an entry before it does"
		}
		fmt.Fprintf(out, "resources[%d] %s (line %d) %s\n", i, e.Resource, e.Line, outcome)
		for _, assumed := range e.Assumed {
			if e.Takes {
				fmt.Fprintf(out, "  assumed: %s\n", visible(assumed))
			}
		}
	}
	for _, e := range t.Events {
		fmt.Fprintf(out, "\nevent %s, id %s, its data:\n%s\n", e.Op, visible(e.ID), display.JSON(e.Data))
		for _, s := range e.Sinks {
			printTriedSink(out, s)
		}
	}
	if t.Silence != "" {
		fmt.Fprintf(out, "\nnothing is announced: %s\n", t.Silence)
	}
	return nil
}

func printTriedSink(out io.Writer, s daemon.TriedSink) {
	outcome := "receives it"
	if !s.Receives {
		outcome = "does not receive it"
	}
	fmt.Fprintf(out, "\nsink %s (%s) %s: %s\n", s.Name, s.Type, outcome, visible(strings.Join(s.Reasons, "; ")))
	if s.Trouble != "" {
		fmt.Fprintf(out, "  cannot be shown: %s\n", visible(s.Trouble))
	}
	if s.Sends == nil {
		return
	}
	fmt.Fprintf(out, "  to: %s\n", visible(s.Sends.To))
	for _, note := range s.Sends.Notes {
		fmt.Fprintf(out, "  note: %s\n", visible(note))
	}
	for _, h := range s.Sends.Headers {
		varies := ""
		if h.Varies != "" {
			varies = "   <- depends on " + h.Varies
		}
		fmt.Fprintf(out, "  %s: %s%s\n", visible(h.Name), visible(h.Value), varies)
	}
	switch {
	case s.Sends.Text != "":
		fmt.Fprintf(out, "  body as text:\n%s\n", display.JSON([]byte(s.Sends.Text)))
	case s.Sends.Body64 != "":
		fmt.Fprintf(out, "  body in base64:\n%s\n", s.Sends.Body64)
	default:
		fmt.Fprintf(out, "%s\n", display.JSON([]byte(strings.TrimSuffix(s.Sends.Body, "\n"))))
	}
}
