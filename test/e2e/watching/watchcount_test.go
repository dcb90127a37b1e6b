package watching_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/e2e"
)

// longRunning is the API server's own count. Of custom resources it names the group,
// and no resource.
var longRunning = regexp.MustCompile(`^apiserver_longrunning_requests\{.*group="([^"]*)".*verb="WATCH".*\} (\S+)`)

// watchesOf is how many watches the API server has open in some groups.
func watchesOf(t *testing.T, config *rest.Config, groups []string) map[string]int {
	t.Helper()
	text, err := discovery.NewDiscoveryClientForConfigOrDie(e2e.Fast(rest.CopyConfig(config))).RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	e2e.Must(t, err)
	open := make(map[string]int)
	for _, group := range groups {
		open[group] = 0
	}
	for line := range strings.Lines(string(text)) {
		m := longRunning.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if _, wanted := open[m[1]]; wanted {
			var n float64
			if _, err := fmt.Sscan(m[2], &n); err != nil {
				t.Fatal(err)
			}
			open[m[1]] += int(n)
		}
	}
	return open
}
