package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/dynwatch"
)

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
