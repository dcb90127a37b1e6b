package replica

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/journal"
)

const testDuration = 8 * time.Second

// candidateOf is a process with a directory, and a Lease.
func candidateOf(t *testing.T, dir string, r record) (*candidate, *LeaseAPI) {
	t.Helper()
	mirror, err := journal.OpenMirror(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	api := new(LeaseAPI)
	leasesOf, err := dynamic.NewForConfig(&rest.Config{Host: "http://lease.invalid", Transport: api})
	if err != nil {
		t.Fatal(err)
	}
	c := &candidate{
		mirror: mirror, broken: make(chan struct{}, 1),
		client: &client{
			api: leasesOf.Resource(leases()).Namespace("default"), name: "informd", me: "me:1", duration: testDuration,
		},
		options: Options{Duration: testDuration, Patience: defaultPatience, Address: "me:1", Server: &Server{}, Status: func(string, bool) {}, Logger: slog.New(slog.DiscardHandler)},
	}
	if _, err := c.client.put(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return c, api
}

// lead returns when the candidate leads, and ends that at once.
func (c *candidate) lead(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	l, err := c.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	l.stop()
	l.keeping.Wait()
	l.lose(ErrLost)
	if err := c.mirror.Close(); err != nil {
		t.Fatal(err)
	}
	return took
}

// TestWithoutTheLog: a process that lacks the log gives others time to take the lease, and takes it then, also
// if it was released.
func TestWithoutTheLog(t *testing.T) {
	for name, test := range map[string]struct {
		holder string
		waits  time.Duration
	}{
		"held":     {"me:1", testDuration + defaultPatience},
		"released": {"", defaultPatience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := candidateOf(t, t.TempDir(), record{holder: test.holder, leader: "other:1", log: "0123", term: 1})
				if took := c.lead(t); took < test.waits || took > test.waits+testDuration {
					t.Errorf("it leads after %s, want %s", took, test.waits)
				}
			})
		})
	}
}

// TestNobodyRenewsWithoutAPIServer: while no API server answers, the lease of nobody expires.
func TestNobodyRenewsWithoutAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := candidateOf(t, t.TempDir(), record{holder: "me:1", leader: "other:1", log: "0123", term: 1})
		const down = 10 * time.Minute
		go func() {
			<-time.After(testDuration)
			api.breaks(true)
			<-time.After(down)
			api.breaks(false)
		}()
		if took := c.lead(t); took < testDuration+down+testDuration+defaultPatience {
			t.Errorf("it leads %s after the API server is back, want %s", took-down-testDuration, testDuration+defaultPatience)
		}
	})
}

// TestTakeoverThatEndedEarly: a process that has opened a copy on which the Lease counts, and ended before the
// Lease named it, waits for no better copy.
func TestTakeoverThatEndedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j, err := journal.Open(journal.Config{Dir: dir, Cluster: "test", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		files, err := j.Shipping().Files()
		if err = errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
		c, _ := candidateOf(t, dir, record{holder: "me:1", leader: "other:1", log: files.Log, inSync: []string{"me:1"}, term: 2})
		if took := c.lead(t); took > 2*testDuration {
			t.Errorf("it leads after %s, want %s", took, testDuration)
		}
	})
}

// TestOutageIsToldOnce: an outage of the API server is one line of the log, though each error differs.
func TestOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := candidateOf(t, t.TempDir(), record{holder: "me:1", term: 1})
		var log strings.Builder
		c.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		api.breaks(true)
		go func() {
			<-time.After(time.Minute)
			api.breaks(false)
		}()
		c.lead(t)
		if n := strings.Count(log.String(), "down for request"); n != 1 {
			t.Errorf("it is logged %d times:\n%s", n, &log)
		}
	})
}
