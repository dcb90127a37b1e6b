package chaos

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/informd/informd/test/cluster"
)

// The journals that informd can be run with.
const (
	JournalLog    = "log"
	JournalMemory = "memory"
)

// Options of a run.
type Options struct {
	Seed     uint64
	Duration time.Duration // of the faults; start, recovery and checks come on top
	// Faults are the names or ids ("N1") of those to inject. Default: all that the
	// journal and the machine allow.
	Faults []string
	// Journal is informd's journal: log (default) or memory. With memory, faults that end informd are left out, as a restart begins anew there.
	Journal string
	// Informds is how many run at once, as replicas; more than one needs the journal log.
	// There is no file sink then, which replicas cannot have.
	Informds int
	// SecondVersion is the version of the second API server: [cluster.Newest]
	// (default) or [cluster.Oldest].
	SecondVersion string
	// Baseline runs the hand-written informer program in informd's place.
	Baseline bool
	// Independent has Kubernetes' own controllers make the load, and informd watch
	// everything: see independent.go.
	Independent bool
	// Pods is how many Pods the Deployments of an independent run have at most.
	Pods int
	// Binary is the informd to test. Default: one is built.
	Binary string
	// Rate is how many writes per second the workload aims at.
	Rate int
	// RSS is how much memory an informd may take, in bytes.
	RSS uint64
	// Patience is how long to wait for what is late, to tell it from what is lost.
	// Default: two minutes.
	Patience time.Duration
	// Logs is a directory to keep the informds' logs in. Default: they are removed.
	Logs string
	// Out is where the progress goes.
	Out io.Writer
}

const (
	defaultRate     = 200
	defaultPods     = 600
	defaultDuration = 4 * time.Minute
	defaultRSS      = 512 << 20
	defaultPatience = 2 * time.Minute
)

func (o Options) withDefaults() (Options, error) {
	if o.Journal == "" {
		o.Journal = JournalLog
	}
	if o.Informds == 0 {
		o.Informds = 1
	}
	if o.Rate == 0 {
		o.Rate = defaultRate
		if o.Independent {
			o.Rate = independentRate
		}
	}
	if o.Pods == 0 {
		o.Pods = defaultPods
	}
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if o.RSS == 0 {
		o.RSS = defaultRSS
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	var errs []error
	if !slices.Contains([]string{JournalLog, JournalMemory}, o.Journal) {
		errs = append(errs, fmt.Errorf("journal %q: want log or memory", o.Journal))
	}
	if !slices.Contains([]string{"", cluster.Newest, cluster.Oldest}, o.SecondVersion) {
		errs = append(errs, fmt.Errorf("second version %q: want %s or %s", o.SecondVersion, cluster.Newest, cluster.Oldest))
	}
	if o.Informds > 1 && (o.Journal != JournalLog || o.Baseline) {
		errs = append(errs, errors.New("several informds need the journal log"))
	}
	if o.Independent && o.Baseline {
		errs = append(errs, errors.New("the baseline has no wildcard, which an independent run needs"))
	}
	return o, errors.Join(errs...)
}

// durable: a restart goes on where the last process ended.
func (o *Options) durable() bool { return o.Journal != JournalMemory || o.Baseline }

// paired: more than one informd runs.
func (o *Options) paired() bool { return o.Informds > 1 }
