package daemon

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDashboard: every expression selects job and instance, and is about metrics that there are, and labels that
// they have. The copies of the chart and of the kustomization are those of the file.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana-dashboard.json")
	must(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	must(t, json.Unmarshal(text, &dashboard))
	labels := make(map[string]string)
	for _, m := range everyMetric(t) {
		labels[m.name] = m.labels
	}
	name, by, legend := regexp.MustCompile(`informd_[a-z_]+`), regexp.MustCompile(`by \(([a-z, ]+)\)`), regexp.MustCompile(`\{\{([a-z]+)\}\}`)
	expressions := 0
	for _, panel := range dashboard.Panels {
		for _, l := range panel.Targets {
			expressions++
			if !strings.Contains(l.Expr, `job=~"$job",instance=~"$instance"}`) {
				t.Errorf("%s: %s does not select job and instance", panel.Title, l.Expr)
			}
			wanted := []string{}
			if found := by.FindStringSubmatch(l.Expr); found != nil {
				wanted = strings.Split(found[1], ", ")
			}
			for _, found := range legend.FindAllStringSubmatch(l.LegendFormat, -1) {
				if !slices.Contains(wanted, found[1]) {
					t.Errorf("%s: the legend %s has a label that %s does not return", panel.Title, l.LegendFormat, l.Expr)
				}
			}
			for _, metric := range name.FindAllString(l.Expr, -1) {
				has, known := labels[strings.TrimSuffix(metric, "_bucket")]
				if !known {
					t.Errorf("%s: there is no metric %s", panel.Title, metric)
				}
				for _, label := range wanted {
					if label != "le" && label != "instance" && !strings.Contains(has, "`"+label+"`") {
						t.Errorf("%s: %s has no label %s", panel.Title, metric, label)
					}
				}
			}
		}
	}
	if expressions < 30 {
		t.Errorf("the dashboard has %d expressions", expressions)
	}
	for _, copied := range []string{"helm/informd/files", "kustomize/components/monitoring"} {
		if got, err := os.ReadFile("../../deploy/" + copied + "/grafana-dashboard.json"); err != nil || string(got) != string(text) {
			t.Errorf("%s has another dashboard than deploy: %v", copied, err)
		}
	}
}
