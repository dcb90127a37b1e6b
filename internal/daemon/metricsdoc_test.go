package daemon

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
)

var update = flag.Bool("update", false, "write docs/metrics-and-alerts.md")

// alert is the alert of a metric. Hold is how long the expression must be true first. A critical one
// is about events that wait or are lost.
type alert struct {
	name, expr, hold, meaning, next string

	critical bool
}

// alerts are the alerts by metric.
func alerts() map[string]alert {
	return map[string]alert{
		"informd_target_state":                  {"InformdTargetNotWatched", `informd_target_state{state=~"degraded|forbidden"} > 0`, "5m", "informd does not watch a resource.", "`informd status` names the reason.", false},
		"informd_target_blocked_seconds":        {"InformdTargetBlocked", `informd_target_blocked_seconds > 60`, "", "A target waits for the journal, which is full or does not answer.", "`informd status` shows the problem of the journal.", true},
		"informd_target_rejected_total":         {"InformdObjectRejected", `increase(informd_target_rejected_total[1h]) > 0`, "", "informd cannot emit an object of the API server.", "Read the dead letters of the source.", false},
		"informd_target_gaps_total":             {"InformdGap", `increase(informd_target_gaps_total[1h]) > 0 or (informd_target_gaps_total > 0 unless informd_target_gaps_total offset 1h)`, "", "Revisions of a target may be missing.", "The log line and the gap event name the reason; see [gaps](runbooks.md#gaps).", false},
		"informd_audit_divergences_total":       {"InformdAuditDivergence", `increase(informd_audit_divergences_total[1d]) > 0`, "", "The announced state of an object differed from etcd; informd announced it again.", "Report the bug with the log lines of the objects.", false},
		"informd_sink_up":                       {"InformdSinkDown", `informd_sink_up == 0`, "10m", "A sink does not take events.", "`informd status` shows the last error.", true},
		"informd_sink_lag_seconds":              {"InformdSinkLag", `informd_sink_lag_seconds > 300`, "2m", "A sink is behind; it loses history once the journal is nearly full.", "`informd status` shows whether it fails or is slow.", false},
		"informd_sink_dead_letters":             {"InformdDeadLetters", `informd_sink_dead_letters > 0`, "", "A dead-letter queue is not empty: a destination refused events for good.", "`informd deadletters list` shows the reasons.", false},
		"informd_sink_trimmed_events_total":     {"InformdSinkGap", `increase(informd_sink_trimmed_events_total[1h]) > 0`, "", "Events left the journal before a sink had them; the sink got a gap.", "Raise `journal.maxBytes`, or make the sink faster; see [gaps](runbooks.md#gaps).", false},
		"informd_sink_panics_total":             {"InformdSinkPanic", `increase(informd_sink_panics_total[1h]) > 0`, "", "The code of a sink has a bug.", "Report the bug with the stack in the log.", false},
		"informd_journal_usable":                {"InformdJournalUnusable", `informd_journal_usable == 0`, "2m", "informd cannot append events.", "`/readyz` and the log name the reason.", true},
		"informd_journal_lost_total":            {"InformdJournalLostEvents", `increase(informd_journal_lost_total[1h]) > 0`, "", "The journal lost acknowledged events; informd declared a gap.", "Check the disk of the journal.", true},
		"informd_journal_dropped_total":         {"InformdHistoryDropped", `increase(informd_journal_dropped_total[1h]) > 0 or (informd_journal_dropped_total > 0 unless informd_journal_dropped_total offset 1h)`, "", "The full journal removed events that a sink had not read; the sink gets a gap.", "Raise `journal.maxBytes`, or make the sink faster.", true},
		"informd_replica_in_sync_followers":     {"InformdNoFollowerInSync", `informd_replica_in_sync_followers == 0`, "5m", "No follower has a whole copy of the leader's log: the loss of the leader is a gap.", "`informd status` and the log of the follower name the reason; see [ha.md](ha.md).", false},
		"informd_config_last_reload_successful": {"InformdReloadFailed", `informd_config_last_reload_successful == 0`, "", "The config file has an error, and the previous config stays in use.", "`informd validate` shows the error.", false},
	}
}

// described collects what collectors describe, in place of a registry.
type described struct{ descs []*prometheus.Desc }

func (d *described) Register(c prometheus.Collector) error {
	out := make(chan *prometheus.Desc)
	go func() {
		defer close(out)
		c.Describe(out)
	}()
	for desc := range out {
		d.descs = append(d.descs, desc)
	}
	return nil
}

func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // never fails
	}
}

func (d *described) Unregister(prometheus.Collector) bool { return true }

// metric is a metric of informd.
type metric struct{ name, help, labels string }

// everyMetric returns all metrics of a running informd.
func everyMetric(t *testing.T) []metric {
	t.Helper()
	var all described
	logger := slog.New(slog.DiscardHandler)
	must(t, registerMetrics(&all, nil, &clusterJournal{SyncSeconds: newSyncSeconds()}))
	must(t, newReloads(nil, &config.Config{}, logger).register(&all))
	all.MustRegister(buildInfo("v1"), newUsableCollector(nil), newLetterCollector(nil, nil), newReplicaCollector(nil))
	all.MustRegister(admin.New(admin.Options{}).Collectors()...)
	runner, err := deliver.New(newCursor(t), nil, deliver.Options{Name: "out", Logger: logger, Registerer: &all})
	must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, runner.Run(ended))
	form := regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	var metrics []metric
	for _, desc := range all.descs {
		parts := form.FindStringSubmatch(desc.String())
		if parts == nil {
			t.Fatalf("a description of another form: %s", desc)
		}
		name, nameErr := strconv.Unquote(parts[1])
		help, helpErr := strconv.Unquote(parts[2])
		if nameErr != nil || helpErr != nil {
			t.Fatalf("a description of another form: %s", desc)
		}
		if !strings.HasPrefix(name, "informd_") {
			continue // of the Go runtime or the process
		}
		var labels []string
		for _, l := range append(strings.Split(parts[3], ","), strings.Split(parts[4], ",")...) {
			if l, _, _ = strings.Cut(l, "="); l != "" {
				labels = append(labels, "`"+l+"`")
			}
		}
		one := metric{name, help, strings.Join(labels, ", ")}
		if !slices.Contains(metrics, one) { // a constant label has a description for each value
			metrics = append(metrics, one)
		}
	}
	return metrics
}

// kind is the type of a metric, by its name.
func (m metric) kind() string {
	switch {
	case strings.HasSuffix(m.name, "_total"):
		return "counter"
	case m.name == "informd_sink_write_seconds", m.name == "informd_journal_sync_seconds":
		return "histogram"
	default:
		return "gauge"
	}
}

const metricsHead = `# Metrics and alerts

<!-- Generated by go test ./internal/daemon -run '^TestMetricsPage$' -update. -->

` + "`admin.listen`" + ` serves these metrics at ` + "`/metrics`" + `, with those of the Go runtime (` + "`go_*`" + `) and the process (` + "`process_*`" + `).
Counters start at 0 when informd starts.

- The label ` + "`target`" + ` is ` + "`<group or core>/<resource>`" + `, with ` + "`@<namespace>`" + ` if the target is one namespace. At most 500 targets have their own series;
  further ones count together as ` + "`(other)`" + `. There, ` + "`informd_target_state`" + ` is the number of these targets in the state, and
  ` + "`informd status`" + ` names them.
- The label ` + "`sink`" + ` is the name of the sink.
- The label ` + "`namespace`" + ` has at most 32 values; further namespaces count as ` + "`(other)`" + `.

[deploy/prometheus-rules.yaml](../deploy/prometheus-rules.yaml) has the rules of all alerts, for Prometheus. [runbooks.md](runbooks.md) has what to do about each.

[deploy/grafana-dashboard.json](../deploy/grafana-dashboard.json) is a dashboard for Grafana: flow, lag, targets by state, gaps, journal, dead letters and API requests. Import it, and select the Prometheus data source.
`

// metricsPage is the page.
func metricsPage(metrics []metric) string {
	var page strings.Builder
	page.WriteString(metricsHead)
	for _, section := range []struct{ title, prefixes string }{
		{"Targets", "informd_target_ informd_audit_"},
		{"Sinks", "informd_sink_"},
		{"Journal", "informd_journal_"},
		{"Replicas", "informd_replica_"},
		{"Config, admin server and build", "informd_config_ informd_admin_ informd_build_"},
	} {
		fmt.Fprintf(&page, "\n## %s\n\n| metric | type | labels | meaning | alert |\n|---|---|---|---|---|\n", section.title)
		for _, m := range metrics {
			if !slices.ContainsFunc(strings.Fields(section.prefixes), func(p string) bool { return strings.HasPrefix(m.name, p) }) {
				continue
			}
			beside := ""
			if a, ok := alerts()[m.name]; ok {
				beside = fmt.Sprintf("`%s`: %s %s", a.name, a.meaning, a.next)
			}
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", m.name, m.kind(), m.labels, m.help, beside)
		}
	}
	return page.String()
}

// rule is an alerting rule of Prometheus.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type ruleGroup struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

// rulesFile is deploy/prometheus-rules.yaml, with the alerts in the order of the page.
func rulesFile(t *testing.T, metrics []metric) string {
	t.Helper()
	group := ruleGroup{Name: "informd"}
	link := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	for _, m := range metrics {
		if a, ok := alerts()[m.name]; ok {
			severity := "warning"
			if a.critical {
				severity = "critical"
			}
			group.Rules = append(group.Rules, rule{a.name, a.expr, a.hold, map[string]string{"severity": severity}, map[string]string{
				"summary":     a.meaning,
				"description": link.ReplaceAllString(a.next, "$1"),
				"runbook_url": display.AlertRunbook(a.name),
			}})
		}
	}
	text, err := yaml.Marshal(map[string][]ruleGroup{"groups": {group}})
	must(t, err)
	return "# Alerting rules of informd for Prometheus.\n# Generated by go test ./internal/daemon -run '^TestMetricsPage$' -update.\n" + string(text)
}

// rulesObject is the file of rules as an object of the Prometheus operator.
func rulesObject(rules string) string {
	head, groups, _ := strings.Cut(rules, "\ngroups:\n")
	object := head + `
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: informd
  namespace: informd
  labels:
    app.kubernetes.io/name: informd
spec:
  groups:
`
	for line := range strings.Lines(groups) {
		object += "  " + line
	}
	return object
}

func TestMetricsPage(t *testing.T) {
	metrics := everyMetric(t)
	got := metricsPage(metrics)
	for _, m := range metrics {
		if strings.Count(got, "| `"+m.name+"` |") != 1 {
			t.Errorf("%s is not on the page once", m.name)
		}
	}
	for name := range alerts() {
		if !slices.ContainsFunc(metrics, func(m metric) bool { return m.name == name }) {
			t.Errorf("the alert of %s has no metric", name)
		}
	}
	golden(t, "../../docs/metrics-and-alerts.md", got)
	golden(t, "../../deploy/prometheus-rules.yaml", rulesFile(t, metrics))
	golden(t, "../../deploy/helm/informd/files/prometheus-rules.yaml", rulesFile(t, metrics))
	golden(t, "../../deploy/kustomize/components/monitoring/prometheusrule.yaml", rulesObject(rulesFile(t, metrics)))
}

// golden compares a file with what the code says it is.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs from the metrics (-file +metrics); write it with -update:\n%s", path, diff)
	}
}
