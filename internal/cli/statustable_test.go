package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a file with what is made in its place. With -update it writes the file.
func golden(t *testing.T, path, made string) {
	t.Helper()
	if *update {
		write(t, path, made)
	}
	if diff := cmp.Diff(docsPage(t, path), made); diff != "" {
		t.Errorf("%s differs (-file +made); -update writes it:\n%s", path, diff)
	}
}

func statusTime() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) }

func ago(d time.Duration) time.Time { return statusTime().Add(-d) }

// busy has a bit of everything that an operator may see.
func busy() *admin.Status {
	return &admin.Status{
		Version: "v0.1.0", Cluster: "prod-eu1", UptimeSeconds: 11525.7,
		Config: &admin.Config{
			Path: "/etc/informd/config.yaml", LastReload: ago(time.Minute), LastSuccess: ago(3 * time.Hour),
			Error: "/etc/informd/config.yaml:4:7: resources[0].mod: unknown key (did you mean \"mode\"?)\n" +
				"/etc/informd/config.yaml:9:3: sinks: unknown",
		},
		Targets: []admin.Target{
			{Target: "apps/deployments", Version: "v1", Mode: "full", State: "live", Objects: 412, EventsPerSecond: 12.345, LastProgress: ago(3 * time.Second), Reason: "not shown"},
			{Target: "core/pods@shop", Version: "v1", Mode: "full", State: "live", Objects: 120000, EventsPerSecond: 1234.5, LastProgress: ago(0)},
			{Target: "core/configmaps", Version: "v1", Mode: "metadata", State: "stale", Objects: 7, EventsPerSecond: 0.02, LastProgress: ago(12*time.Minute + 30*time.Second), Reason: `watch: Get "https://10.0.0.1:6443/api/v1/configmaps?allowWatchBookmarks=true&resourceVersion=123456&watch=true": dial tcp 10.0.0.1:6443: connect: connection refused`},
			{Target: "core/secrets", Version: "v1", Mode: "full", State: "forbidden", Reason: "list: secrets is forbidden:\n\tUser \"x\" cannot list"},
			{Target: "sensors.demo.informd.dev/sensors", Mode: "full", State: "waiting", Reason: "not served"},
			{Target: "example.com/" + strings.Repeat("a-very-long-name-", 5), Version: "v1beta1", Mode: "full", State: "syncing", Objects: 3},
			{Target: "example.com/größen@räume", Version: "v1", Mode: "full", State: "live", Objects: 1, LastProgress: ago(50 * time.Hour)},
		},
		Sinks: []deliver.Status{
			{Name: "bus", Type: "nats", State: "running", Delivered: 123456, LastError: "over", LastErrorAt: ago(time.Hour), LastSuccess: ago(time.Minute)},
			{
				Name: "hook", Type: "webhook", State: "retrying", LagEvents: 1042, LagSeconds: 754.2, Delivered: 99, Retries: 17,
				LastError: "POST https://example.com/k8s: 503 Service Unavailable", LastErrorAt: ago(4 * time.Second),
				Resnapshots: []deliver.Pending{{Resource: "apps/deployments", Run: 1795170000123}},
			},
			{Name: "archive", Type: "file", State: "opening", LastError: "open /var/log/informd/events.ndjson: permission denied"},
		},
		DeadLetters: map[string]uint64{"hook": 2, "left-the-config": 3, "source": 1},
		Journal:     admin.Journal{Type: "log", Events: 98765, Bytes: 1 << 30 / 3, Capacity: 10 << 30, Blocked: 2, Problem: "the disk is full"},
	}
}

func rendered(t *testing.T, s *admin.Status) string {
	t.Helper()
	var out bytes.Buffer
	must(t, printStatus(&out, s, statusTime()))
	return out.String()
}

func TestStatusTables(t *testing.T) {
	cases := map[string]*admin.Status{
		"busy": busy(),
		"follower": {
			Version: "v0.1.0", Cluster: "prod-eu1", UptimeSeconds: 60, Follower: &admin.Follower{Leader: "informd-1.informd:8080", InSync: true},
			Journal: admin.Journal{Type: "log", Problem: "it is not open yet"},
		},
		"starting": {Version: "v0.1.0", Cluster: "prod-eu1", Config: &admin.Config{Path: "config.yaml", LastSuccess: ago(0), Successful: true}, Journal: admin.Journal{Type: "memory", Capacity: 16 << 20}},
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			golden(t, filepath.Join("testdata", "status-"+name+".golden"), rendered(t, s))
		})
	}
}

// TestStatusIsHarmless: what comes from the cluster and from destinations cannot act
// on the terminal, nor add lines or cells.
func TestStatusIsHarmless(t *testing.T) {
	hostile := map[string]string{
		"clear":         "\x1b[2J\x1b[H",
		"title":         "\x1b]0;owned\a",
		"C1":            "\u009b2J",
		"bytes":         "\xff\xfe\x9b2J",
		"lines":         "a\r\nTARGET\vb\fc\u2028d\u0085e",
		"cells":         "a\tb\tc",
		"right to left": "\u202etxt.exe\u2066",
		"invisible":     "\u200b\ufeff\u00ad",
		"back":          "abc\b\b\b\x7f",
	}
	all := ""
	for r := range rune(0xa0) {
		all += string(r)
	}
	hostile["all"] = all
	lines := strings.Count(rendered(t, &admin.Status{
		Follower: &admin.Follower{Leader: "x"}, Config: &admin.Config{}, Targets: []admin.Target{{State: "stale"}}, Sinks: []deliver.Status{{}},
	}), "\n")
	for name, x := range hostile {
		t.Run(name, func(t *testing.T) {
			got := rendered(t, &admin.Status{
				Version: x, Cluster: x, Follower: &admin.Follower{Leader: x}, Config: &admin.Config{Path: x, Error: x},
				Targets: []admin.Target{{Target: x, Version: x, Mode: x, State: x, Reason: x}},
				Sinks:   []deliver.Status{{Name: x, Type: x, State: deliver.State(x), LastError: x, LastErrorAt: ago(time.Second), LagSeconds: 1e300}},
				Journal: admin.Journal{Type: x, Problem: x},
			})
			checkHarmless(t, got)
			if n := strings.Count(got, "\n"); n != lines {
				t.Errorf("%d lines, want %d:\n%s", n, lines, got)
			}
		})
	}
}

func checkHarmless(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("not UTF-8: %q", text)
	}
	for i, r := range text {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("%q at %d of %q", r, i, text)
		}
	}
}

// TestStatusShowsErrorsWhole: of a sink that does not work, the table has all of the error; of one that works
// again, and has delivered since, it has none.
func TestStatusShowsErrorsWhole(t *testing.T) {
	long := "open: " + strings.Repeat("a chain of causes: ", 30) + "the last one"
	cases := map[string]struct {
		sink  deliver.Status
		shown bool
	}{
		"fails":                {deliver.Status{State: deliver.Retrying, LastErrorAt: ago(time.Second), LastSuccess: ago(time.Hour)}, true},
		"fails, now and again": {deliver.Status{State: deliver.Retrying, LastErrorAt: ago(time.Minute), LastSuccess: ago(time.Second)}, true},
		"refused its last":     {deliver.Status{State: deliver.Running, LastErrorAt: ago(time.Minute), LastSuccess: ago(time.Hour)}, true},
		"works again":          {deliver.Status{State: deliver.Running, LastErrorAt: ago(time.Hour), LastSuccess: ago(time.Minute)}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.sink.Name, c.sink.LastError = "bus", long
			got := rendered(t, &admin.Status{Sinks: []deliver.Status{c.sink}})
			if strings.Contains(got, long) != c.shown {
				t.Errorf("shown: %v, want %v:\n%s", !c.shown, c.shown, got)
			}
		})
	}
}

// TestColumnsOfThePage: the tables of the page name what they show as the commands do, so that people who
// compare them need no dictionary.
func TestColumnsOfThePage(t *testing.T) {
	text, err := os.ReadFile("../page/assets/index.html")
	must(t, err)
	var gaps strings.Builder
	must(t, printGaps(&gaps, []event.Event{{Op: event.Gap, Gap: &event.GapInfo{}}}))
	first, _, _ := strings.Cut(gaps.String(), "\n")
	for table, tt := range map[string]struct {
		columns []string
		// absent are columns that only the command has.
		absent []string
	}{
		"sinks":   {sinkRows(nil, nil, time.Time{})[0], []string{"DEAD LETTERS"}},
		"targets": {targetRows(nil, time.Time{})[0], []string{"VERSION", "MODE"}},
		"gaps":    {strings.Fields(first), nil},
	} {
		head := regexp.MustCompile(`<thead>(.*)</thead>\s*<tbody id="` + table + `">`).FindSubmatch(text)
		if head == nil {
			t.Errorf("the page has no table %s", table)
			continue
		}
		var names []string
		for _, cell := range regexp.MustCompile(`<th[^>]*>([^<]*)</th>`).FindAllSubmatch(head[1], -1) {
			names = append(names, strings.ToUpper(string(cell[1])))
		}
		for _, column := range tt.columns {
			if slices.Contains(names, column) == slices.Contains(tt.absent, column) {
				t.Errorf("the table %s of the page has the columns %q; the command has %s", table, names, column)
			}
		}
	}
}
