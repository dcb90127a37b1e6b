package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/dynwatch"
)

// printPlan renders a plan for people: a row per target, and what to do if permissions
// are missing.
func printPlan(out io.Writer, p *plan) error {
	ready := 0
	for i := range p.Targets {
		if p.Targets[i].State == string(dynwatch.Ready) {
			ready++
		}
	}
	fmt.Fprintf(out, "cluster %s at %s: %d targets, of which %d can be watched now\n", p.Cluster, p.Server, len(p.Targets), ready)
	if err := printTable(out, planRows(p.Targets)); err != nil {
		return err
	}
	if slices.ContainsFunc(p.Targets, func(t plannedTarget) bool { return len(t.MissingVerbs) > 0 }) {
		fmt.Fprint(out, "\nPermissions are missing: apply what `informd rbac` prints for the config.\n")
	}
	return nil
}

func planRows(targets []plannedTarget) [][]string {
	rows := [][]string{{"TARGET", "VERSION", "MODE", "NAMESPACES", "STATE", "OBJECTS", "SIZE", "MISSING", "REACH", "REASON"}}
	for i := range targets {
		t := &targets[i]
		namespaces, objects, bytes := t.Namespace, "", ""
		if namespaces == "" {
			namespaces = "all"
		}
		if t.Objects != nil && t.Bytes != nil {
			objects, bytes = count(*t.Objects), size(*t.Bytes)
		}
		if t.MoreObjects {
			objects, bytes = ">"+objects, ">"+bytes
		}
		rows = append(rows, []string{
			t.Target, t.Version, t.Mode, namespaces, t.State, objects, bytes, strings.Join(t.MissingVerbs, ","), reaches(t), shortened(t.Reason),
		})
	}
	return rows
}

// reaches says how far back one can go.
func reaches(t *plannedTarget) string {
	var ways []string
	switch {
	case t.WatchReach == nil:
	case t.WatchFrom == 1:
		ways = append(ways, "the beginning")
	case *t.WatchReach == 1:
		ways = append(ways, "1 revision")
	default:
		ways = append(ways, grouped(*t.WatchReach)+" revisions")
	}
	switch {
	case t.EtcdReach == nil || t.EtcdFrom == t.WatchFrom:
	case t.EtcdFrom == 1:
		ways = append(ways, "etcd the beginning")
	default:
		ways = append(ways, "etcd "+grouped(*t.EtcdReach))
	}
	return strings.Join(ways, ", ")
}

// grouped is a number with a comma before every three digits.
func grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
