package daemon

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// chart is a panel of the dashboard. $of in an expression stands for the label selector.
type chart struct {
	title, about string
	kind         string // stat or timeseries
	unit         string // of Grafana
	bad          float64
	lines        []line
}

// line is an expression and the legend of its series.
type line struct{ expr, legend string }

// chartRow is a row of charts.
type chartRow struct {
	title  string
	charts []chart
}

// charts are the rows of the dashboard. A stat turns red at bad.
func charts() []chartRow {
	stat, lines := "stat", "timeseries"
	return []chartRow{
		{"At a glance", []chart{
			{"Targets not live", "Targets in each state but live; informd status names the reasons.", stat, "short", 1, []line{{`sum(informd_target_states{state!="live",$of}) or vector(0)`, ""}}},
			{"Sinks down", "Sinks that do not take events.", stat, "short", 1, []line{{`count(informd_sink_up{$of} == 0) or vector(0)`, ""}}},
			{"Largest lag", "Age of the oldest event that a sink does not have yet.", stat, "s", 300, []line{{`max(informd_sink_lag_seconds{$of})`, ""}}},
			{"Gaps in 24 hours", "Gap events: revisions may be missing.", stat, "short", 1, []line{{`sum(increase(informd_target_gaps_total{$of}[24h])) or vector(0)`, ""}}},
			{"Dead letters", "Events that were refused for good.", stat, "short", 1, []line{{`sum(informd_sink_dead_letters{$of}) or vector(0)`, ""}}},
			{"Journal in use", "Bytes in the journal, as a share of its capacity.", stat, "percentunit", 0.9, []line{{`max(informd_journal_bytes{$of} / informd_journal_capacity_bytes{$of})`, ""}}},
		}},
		{"Flow", []chart{
			{"Events by operation", "Events that targets append to the journal.", lines, "ops", 0, []line{{`sum by (op) (rate(informd_target_events_total{$of}[$__rate_interval]))`, "{{op}}"}}},
			{"Busiest targets", "The ten targets with the most events.", lines, "ops", 0, []line{{`topk(10, sum by (target) (rate(informd_target_events_total{$of}[$__rate_interval])))`, "{{target}}"}}},
			{"Events by sink and result", "Events that sinks have handled.", lines, "ops", 0, []line{{`sum by (sink, result) (rate(informd_sink_events_total{$of}[$__rate_interval]))`, "{{sink}} {{result}}"}}},
		}},
		{"Lag", []chart{
			{"Lag in seconds", "Age of the oldest event that the sink does not have yet.", lines, "s", 0, []line{{`max by (sink) (informd_sink_lag_seconds{$of})`, "{{sink}}"}}},
			{"Lag in events", "Events in the journal that the sink does not have yet.", lines, "short", 0, []line{{`max by (sink) (informd_sink_lag_events{$of})`, "{{sink}}"}}},
			{"Duration of writes", "The median and the 99th percentile of writes to the sink.", lines, "s", 0, []line{
				{`histogram_quantile(0.5, sum by (sink, le) (rate(informd_sink_write_seconds_bucket{$of}[$__rate_interval])))`, "{{sink}} p50"},
				{`histogram_quantile(0.99, sum by (sink, le) (rate(informd_sink_write_seconds_bucket{$of}[$__rate_interval])))`, "{{sink}} p99"},
			}},
		}},
		{"Targets", []chart{
			{"Targets by state", "", lines, "short", 0, []line{{`sum by (state) (informd_target_states{$of}) > 0`, "{{state}}"}}},
			{"Age of the last message", "The ten targets that the API server has told nothing for the longest time, bookmarks included.", lines, "s", 0, []line{{`topk(10, max by (target) (informd_target_progress_age_seconds{$of}))`, "{{target}}"}}},
			{"Waiting for the journal", "Targets that wait for the journal.", lines, "s", 0, []line{{`max by (target) (informd_target_blocked_seconds{$of}) > 0`, "{{target}}"}}},
		}},
		{"Gaps and dead letters", []chart{
			{"Gaps by reason", "", lines, "short", 0, []line{{`sum by (reason) (increase(informd_target_gaps_total{$of}[$__rate_interval]))`, "{{reason}}"}}},
			{"Removed before a sink had them", "Events that left the journal unread; the sink got a gap.", lines, "short", 0, []line{{`sum by (sink) (increase(informd_sink_trimmed_events_total{$of}[$__rate_interval]))`, "{{sink}}"}}},
			{"Dead letters by queue", "", lines, "short", 0, []line{{`max by (sink) (informd_sink_dead_letters{$of})`, "{{sink}}"}}},
		}},
		{"Journal", []chart{
			{"Size", "", lines, "bytes", 0, []line{
				{`max(informd_journal_bytes{$of})`, "in use"},
				{`max(informd_journal_capacity_bytes{$of})`, "capacity"},
			}},
			{"Events in the journal", "", lines, "short", 0, []line{{`max(informd_journal_events{$of})`, "events"}}},
			{"Losses", "Times that the journal lacked acknowledged events, and events that the full journal removed.", lines, "short", 0, []line{
				{`sum(increase(informd_journal_lost_total{$of}[$__rate_interval]))`, "lost"},
				{`sum(increase(informd_journal_dropped_total{$of}[$__rate_interval]))`, "removed when full"},
			}},
		}},
		{"Disk of the journal", []chart{
			{"Duration of syncs", "The median and the 99th percentile; events of new objects wait for a sync.", lines, "s", 0, []line{
				{`histogram_quantile(0.5, sum by (le) (rate(informd_journal_sync_seconds_bucket{$of}[$__rate_interval])))`, "p50"},
				{`histogram_quantile(0.99, sum by (le) (rate(informd_journal_sync_seconds_bucket{$of}[$__rate_interval])))`, "p99"},
			}},
			{"Bytes", "Appended events, and what is written, also by compaction.", lines, "Bps", 0, []line{
				{`sum(rate(informd_journal_appended_bytes_total{$of}[$__rate_interval]))`, "appended"},
				{`sum(rate(informd_journal_written_bytes_total{$of}[$__rate_interval]))`, "written"},
			}},
		}},
		{"API requests", []chart{
			{"Watches opened", "", lines, "ops", 0, []line{{`sum(rate(informd_target_watches_total{$of}[$__rate_interval]))`, "watches"}}},
			{"Lists, and requests for old revisions", "", lines, "ops", 0, []line{
				{`sum(rate(informd_target_lists_total{$of}[$__rate_interval]))`, "lists"},
				{`sum(rate(informd_target_walk_requests_total{$of}[$__rate_interval]))`, "old revisions"},
			}},
			{"Failures", "Requests and watches that ended with an error: the ten targets with the most.", lines, "ops", 0, []line{{`topk(10, sum by (target) (rate(informd_target_failures_total{$of}[$__rate_interval])))`, "{{target}}"}}},
		}},
		{"Process", []chart{
			{"CPU", "", lines, "percentunit", 0, []line{{`sum by (instance) (rate(process_cpu_seconds_total{$of}[$__rate_interval]))`, "{{instance}}"}}},
			{"Memory", "", lines, "bytes", 0, []line{{`max by (instance) (process_resident_memory_bytes{$of})`, "{{instance}}"}}},
			{"Goroutines", "", lines, "short", 0, []line{{`max by (instance) (go_goroutines{$of})`, "{{instance}}"}}},
		}},
	}
}

const (
	dashboardWidth = 24
	statHeight     = 4
	chartHeight    = 8
)

// dashboard is deploy/grafana-dashboard.json.
func dashboard(t *testing.T) string {
	t.Helper()
	source := map[string]string{"type": "prometheus", "uid": "${datasource}"}
	var panels []any
	y := 0
	add := func(panel map[string]any, x, width, height int) {
		panel["id"] = len(panels) + 1
		panel["gridPos"] = map[string]int{"x": x, "y": y, "w": width, "h": height}
		panels = append(panels, panel)
	}
	for _, row := range charts() {
		add(map[string]any{"type": "row", "title": row.title, "collapsed": false, "panels": []any{}}, 0, dashboardWidth, 1)
		y++
		width, height := dashboardWidth/len(row.charts), chartHeight
		for i, c := range row.charts {
			var targets []any
			for n, l := range c.lines {
				targets = append(targets, map[string]any{
					"refId": string(rune('A' + n)), "datasource": source, "legendFormat": l.legend,
					"expr": strings.ReplaceAll(l.expr, "$of", `job=~"$job",instance=~"$instance"`),
				})
			}
			defaults := map[string]any{"unit": c.unit}
			if c.kind == "stat" {
				height = statHeight
				defaults["thresholds"] = map[string]any{"mode": "absolute", "steps": []any{
					map[string]any{"color": "green", "value": nil}, map[string]any{"color": "red", "value": c.bad},
				}}
			}
			add(map[string]any{
				"type": c.kind, "title": c.title, "description": c.about, "datasource": source, "targets": targets,
				"fieldConfig": map[string]any{"defaults": defaults, "overrides": []any{}},
			}, i*width, width, height)
		}
		y += height
	}
	values := func(name, label, query string) map[string]any {
		return map[string]any{
			"type": "query", "name": name, "label": label, "datasource": source, "query": query, "definition": query,
			"refresh": 2, "multi": true, "includeAll": true, "current": map[string]any{"text": "All", "value": "$__all"},
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"title": "informd", "uid": "informd", "tags": []string{"informd", "kubernetes"}, "schemaVersion": 39, "version": 1,
		"refresh": "30s", "time": map[string]string{"from": "now-6h", "to": "now"}, "panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"},
			values("job", "Job", "label_values(informd_build_info, job)"),
			values("instance", "Instance", `label_values(informd_build_info{job=~"$job"}, instance)`),
		}},
	}, "", "  ")
	must(t, err)
	return string(text) + "\n"
}

// TestDashboard: every expression is about metrics that there are, and labels that they have.
func TestDashboard(t *testing.T) {
	labels := make(map[string]string)
	for _, m := range everyMetric(t) {
		labels[m.name] = m.labels
	}
	name, by, legend := regexp.MustCompile(`informd_[a-z_]+`), regexp.MustCompile(`by \(([a-z, ]+)\)`), regexp.MustCompile(`\{\{([a-z]+)\}\}`)
	for _, row := range charts() {
		for _, c := range row.charts {
			for _, l := range c.lines {
				if !strings.Contains(l.expr, "{$of}") && !strings.Contains(l.expr, ",$of}") {
					t.Errorf("%s: %s does not select job and instance", c.title, l.expr)
				}
				wanted := []string{}
				if found := by.FindStringSubmatch(l.expr); found != nil {
					wanted = strings.Split(found[1], ", ")
				}
				for _, found := range legend.FindAllStringSubmatch(l.legend, -1) {
					if !slices.Contains(wanted, found[1]) {
						t.Errorf("%s: the legend %s has a label that %s does not return", c.title, l.legend, l.expr)
					}
				}
				for _, metric := range name.FindAllString(l.expr, -1) {
					has, known := labels[strings.TrimSuffix(metric, "_bucket")]
					if !known {
						t.Errorf("%s: there is no metric %s", c.title, metric)
					}
					for _, label := range wanted {
						if label != "le" && label != "instance" && !strings.Contains(has, "`"+label+"`") {
							t.Errorf("%s: %s has no label %s", c.title, metric, label)
						}
					}
				}
			}
		}
	}
	golden(t, "../../deploy/grafana-dashboard.json", dashboard(t))
	golden(t, "../../deploy/helm/informd/files/grafana-dashboard.json", dashboard(t))
	golden(t, "../../deploy/kustomize/components/monitoring/grafana-dashboard.json", dashboard(t))
}
