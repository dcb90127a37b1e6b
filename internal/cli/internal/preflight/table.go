package preflight

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/internal/cli/internal/terminal"
	"github.com/informd/informd/pkg/dynwatch"
)

// Print writes the report for people: a row per target, and what to do if permissions
// are missing.
func Print(out io.Writer, p *Report) error {
	ready := 0
	for i := range p.Targets {
		if p.Targets[i].State == string(dynwatch.Ready) {
			ready++
		}
	}
	fmt.Fprintf(out, "cluster %s at %s: %s, %d ready\n", p.Cluster, p.Server, terminal.Number(len(p.Targets), "target", "targets"), ready)
	if err := terminal.PrintTable(out, planRows(p.Targets)); err != nil {
		return err
	}
	if slices.ContainsFunc(p.Targets, func(t plannedTarget) bool { return t.lacksPermission() }) {
		fmt.Fprint(out, terminal.PermissionsMissing)
	}
	if len(p.Optional) > 0 {
		fmt.Fprint(out, "\nNot required, and missing, too; `informd rbac` prints them as well:\n")
	}
	for _, m := range p.Optional {
		fmt.Fprintf(out, "- %s on %s: without, %s.\n", strings.Join(m.Verbs, ", "), objectOf(m), m.Without)
	}
	return nil
}

// objectOf names what the verbs are about, as kubectl does.
func objectOf(m dynwatch.MissingAccess) string {
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
	rows := [][]string{{"TARGET", "VERSION", "MODE", "SCOPE", "NAMESPACES", "STATE", "OBJECTS", "SIZE", "MISSING", "REACH", "REASON"}}
	for i := range targets {
		t := &targets[i]
		objects, bytes := "", ""
		if t.Objects != nil && t.Bytes != nil {
			objects = figure(terminal.Count(*t.Objects), t.MoreObjects, t.ObjectsEstimated)
			bytes = figure(terminal.Size(*t.Bytes), t.MoreObjects, t.BytesEstimated)
		}
		rows = append(rows, []string{
			t.Target, t.Version, t.Mode, t.Scope, t.covers(), t.State, objects, bytes, t.missing(), reaches(t), terminal.Shortened(t.Reason),
		})
	}
	return rows
}

// figure is one that may be a lower bound, or an estimate.
func figure(text string, more, estimated bool) string {
	switch {
	case more:
		return ">" + text
	case estimated:
		return "~" + text
	default:
		return text
	}
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
		text = strings.TrimPrefix(text+", labels "+terminal.Shortened(t.NamespaceSelector), ", ")
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

// reaches says how far back one can go.
func reaches(t *plannedTarget) string {
	var ways []string
	switch {
	case t.WatchReach == nil:
	case t.WatchFrom == 1:
		ways = append(ways, "since the beginning")
	case *t.WatchReach == 1:
		ways = append(ways, "1 revision")
	default:
		ways = append(ways, terminal.Grouped(*t.WatchReach)+" revisions")
	}
	switch {
	case t.EtcdReach == nil || t.EtcdFrom == t.WatchFrom:
	case t.EtcdFrom == 1:
		ways = append(ways, "etcd: since the beginning")
	default:
		ways = append(ways, "etcd: "+terminal.Grouped(*t.EtcdReach))
	}
	return strings.Join(ways, "; ")
}
