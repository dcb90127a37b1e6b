package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/cluster/proc"
	"github.com/informd/informd/test/e2e"
)

// alertCase is a series with which an alert fires, and ends to fire.
type alertCase struct {
	series, values string // as promtool takes them, one value a minute
	fires, ends    string // when it is looked at
}

// counts rises once, at minute 6. An increase over an hour or a day ends that much later.
const counts = "0x5 1x2000"

func alertCases() map[string]alertCase {
	hour, day := [2]string{"10m", "90m"}, [2]string{"10m", "1500m"}
	gauge := func(series string) alertCase { return alertCase{series, "0x5 1x30 0x30", "25m", "60m"} }
	down := func(series string) alertCase { return alertCase{series, "1x5 0x30 1x30", "25m", "60m"} }
	during := func(series string, when [2]string) alertCase { return alertCase{series, counts, when[0], when[1]} }
	return map[string]alertCase{
		"InformdTargetNotWatched":  gauge(`informd_target_state{target="core/pods",state="forbidden"}`),
		"InformdObjectRejected":    during(`informd_target_rejected_total{target="core/pods"}`, hour),
		"InformdAuditDivergence":   during(`informd_audit_divergences_total{target="core/pods"}`, day),
		"InformdTargetBlocked":     {`informd_target_blocked_seconds{target="core/pods"}`, "0+60x20 0x60", "15m", "50m"},
		"InformdGap":               {`informd_target_gaps_total{target="core/pods",reason="expired"}`, "_x5 1x200", "10m", "90m"},
		"InformdHistoryDropped":    {`informd_journal_dropped_total{namespace="shop"}`, "_x5 7x200", "10m", "90m"},
		"InformdJournalLostEvents": during(`informd_journal_lost_total`, hour),
		"InformdNoFollowerInSync":  down(`informd_replica_in_sync_followers`),
		"InformdReloadFailed":      down(`informd_config_last_reload_successful`),
		"InformdJournalUnusable":   down(`informd_journal_usable`),
		"InformdDeadLetters":       gauge(`informd_sink_dead_letters{sink="hook"}`),
		"InformdSinkPanic":         during(`informd_sink_panics_total{sink="hook"}`, hour),
		"InformdSinkGap":           during(`informd_sink_trimmed_events_total{sink="hook"}`, hour),
		"InformdSinkLag":           {`informd_sink_lag_seconds{sink="hook"}`, "0+60x20 0x60", "15m", "50m"},
		"InformdSinkDown":          down(`informd_sink_up{sink="hook"}`),
	}
}

// rules is the file of alerting rules.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for,omitempty"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

const rulesFile = "../../../deploy/prometheus-rules.yaml"

func shippedRules(t *testing.T) rules {
	t.Helper()
	var r rules
	text, err := os.ReadFile(rulesFile)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &r)
	}
	e2e.Must(t, err)
	return r
}

// prometheusTool is prometheus or promtool, which `make prometheus` unpacks.
func prometheusTool(t *testing.T, name string) string {
	t.Helper()
	tools := os.Getenv("TOOLS") // make exports it
	if tools == "" {
		cache, err := os.UserCacheDir()
		e2e.Must(t, err)
		tools = filepath.Join(cache, "informd-tools")
	}
	path := filepath.Join(tools, "prometheus-debian", "usr", "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing; run `make prometheus`: %v", name, err)
	}
	return path
}

// TestEachAlertFiresAndEnds: the rules of Prometheus itself evaluate each alert over a series
// that begins and ceases to be a reason for it.
func TestEachAlertFiresAndEnds(t *testing.T) {
	cases := alertCases()
	path, err := filepath.Abs(rulesFile)
	e2e.Must(t, err)
	for _, group := range shippedRules(t).Groups {
		for _, rule := range group.Rules {
			t.Run(rule.Alert, func(t *testing.T) {
				c, known := cases[rule.Alert]
				if !known {
					t.Fatal("the test has no series for it")
				}
				delete(cases, rule.Alert)
				firing := fmt.Sprintf(`count(ALERTS{alertname=%q,alertstate="firing"}) or vector(0)`, rule.Alert)
				expect := func(at string, value int) map[string]any {
					return map[string]any{"expr": firing, "eval_time": at, "exp_samples": []map[string]any{{"labels": "{}", "value": value}}}
				}
				text, err := yaml.Marshal(map[string]any{
					"rule_files": []string{path}, "evaluation_interval": "1m",
					"tests": []map[string]any{{
						"interval":         "1m",
						"input_series":     []map[string]string{{"series": c.series, "values": c.values}},
						"promql_expr_test": []map[string]any{expect("1m", 0), expect(c.fires, 1), expect(c.ends, 0)},
					}},
				})
				e2e.Must(t, err)
				file := e2e.WriteFile(t, "alert.yaml", string(text))
				if out, err := exec.CommandContext(t.Context(), prometheusTool(t, "promtool"), "test", "rules", file).CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
	for name := range cases {
		t.Errorf("there is no alert %s", name)
	}
}

// prometheus is a real one that scrapes one informd each second.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus runs it with the shipped rules. Alerts need no time to fire.
func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	r := shippedRules(t)
	for _, group := range r.Groups {
		for i := range group.Rules {
			group.Rules[i].For = ""
		}
	}
	text, err := yaml.Marshal(r)
	e2e.Must(t, err)
	config := fmt.Sprintf(`{global: {scrape_interval: 1s, evaluation_interval: 1s}, rule_files: [%q], scrape_configs: [{job_name: informd, static_configs: [{targets: [%q]}]}]}`,
		e2e.WriteFile(t, "rules.yaml", string(text)), target)
	address := e2e.FreeAddress(t)
	var log e2e.LockedBuffer
	// The test ends it itself, after what it asks at its end.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), prometheusTool(t, "prometheus"), "--config.file="+e2e.WriteFile(t, "prometheus.yaml", config),
		"--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &log, &log, proc.TiedToParent()
	e2e.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			t.Logf("the log of Prometheus:\n%s", log.String())
		}
	})
	p := &prometheus{t: t, url: "http://" + address}
	e2e.Eventually(t, "Prometheus scrapes informd", func() bool {
		values, err := p.query("up")
		return err == nil && len(values) == 1 && values[0] == "1"
	})
	return p
}

// query returns the values of an expression now.
func (p *prometheus) query(expr string) (values []string, err error) {
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := p.get("/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	for _, r := range answer.Data.Result {
		values = append(values, fmt.Sprint(r.Value[1]))
	}
	return values, nil
}

func (p *prometheus) get(path string, into any) error {
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(into)
}

// firing returns the names of the alerts that fire.
func (p *prometheus) firing() []string {
	p.t.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	e2e.Must(p.t, p.get("/api/v1/alerts", &answer))
	names := make(map[string]bool)
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			names[a.Labels["alertname"]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// dashboardExprs returns the expressions of the dashboard, without the variables of Grafana.
func dashboardExprs(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/grafana-dashboard.json")
	e2e.Must(t, err)
	for _, m := range regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(text, -1) {
		var expr string
		e2e.Must(t, json.Unmarshal(m[1], &expr))
		all = append(all, strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "1m").Replace(expr))
	}
	return all
}

// TestAlertsOfARunningInformd: a real Prometheus evaluates every expression of the rules and of
// the dashboard over a real informd, and its alerts follow a sink and a config that fail and work
// again.
func TestAlertsOfARunningInformd(t *testing.T) {
	var broken atomic.Bool
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer hook.Close()
	c := cluster.Start(t, cluster.Options{})
	s := e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, resnapshotEvery: 1h}", Journal: e2e.LogJournal,
		Sinks: fmt.Sprintf("- {name: hook, type: webhook, url: %q}", hook.URL),
	}
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForLive(1)
	p := startPrometheus(t, d.Admin)

	exprs := dashboardExprs(t)
	if len(exprs) < 20 {
		t.Errorf("the dashboard has %d expressions", len(exprs))
	}
	for _, group := range shippedRules(t).Groups {
		for _, rule := range group.Rules {
			exprs = append(exprs, rule.Expr)
		}
	}
	documented, err := os.ReadFile("../../../docs/metrics-and-alerts.md")
	e2e.Must(t, err)
	for _, expr := range exprs {
		if _, err := p.query(expr); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
		for _, name := range regexp.MustCompile(`informd_[a-z_]+`).FindAllString(expr, -1) {
			base := strings.TrimSuffix(name, "_bucket")
			if values, err := p.query(name); (err != nil || len(values) == 0) && !strings.Contains(string(documented), "`"+base+"`") {
				t.Errorf("%s: informd has no metric %s (%v)", expr, name, err)
			}
		}
	}
	e2e.Eventually(t, "no alert at first", func() bool { return len(p.firing()) == 0 })

	broken.Store(true)
	writer := e2e.NewWriter(dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())), e2e.ConfigMapKind(), e2e.NewLedger(), 1)
	e2e.Must(t, writer.Create(t.Context(), "a"))
	good, err := os.ReadFile(d.Config)
	e2e.Must(t, err)
	e2e.Must(t, os.WriteFile(d.Config, append(good, "nonsense: true\n"...), 0o600))
	e2e.Eventually(t, "alerts of the sink and of the config", func() bool {
		return slices.Equal(p.firing(), []string{"InformdReloadFailed", "InformdSinkDown"})
	})
	broken.Store(false)
	e2e.Must(t, os.WriteFile(d.Config, good, 0o600))
	e2e.Eventually(t, "no alert at the end", func() bool { return len(p.firing()) == 0 })
}
