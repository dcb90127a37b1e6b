package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const maxAPIServers = 2

// Options of a cluster. The zero value is one API server on one etcd, in a temp
// dir, without compaction.
type Options struct {
	// APIServers is how many API servers share the etcd: 1 (default) or 2.
	APIServers int
	// Dir keeps data, keys and logs, and is kept at the end, so that a later
	// cluster can go on from its data. Default: a temp dir.
	Dir string
	// Kubeconfig is a file to write the administrator's kubeconfig to; it is
	// removed at the end. A file that no cluster wrote is never overwritten.
	// Default: a file in the directory.
	Kubeconfig string
	// CompactionInterval is how often the API servers compact etcd. 0 is never.
	CompactionInterval time.Duration
	// WatchCacheSizes maps a resource ("configmaps", "deployments.apps") to the
	// size of its watch cache. The API server sizes its caches by itself; what it
	// takes from here is 0, which turns the cache of that resource off.
	WatchCacheSizes map[string]int
	// NoListSnapshots makes the API servers read every list at an exact revision
	// from etcd (feature gate ListFromCacheSnapshot), so that Compact ends history
	// for all of them at once. Real clusters have the snapshots.
	NoListSnapshots bool
	// EtcdQuotaBytes limits etcd's data. 0 is etcd's default, 2 GiB.
	EtcdQuotaBytes int64
	// APIServerFlags are appended to the flags of every API server, and win over
	// the flags set here: "--event-ttl=10m".
	APIServerFlags []string
	// Binary is the control plane binary. Default: the one package binary finds
	// or builds.
	Binary string
}

func (o Options) withDefaults() (Options, error) {
	if o.APIServers == 0 {
		o.APIServers = 1
	}
	var errs []error
	if o.APIServers < 0 || o.APIServers > maxAPIServers {
		errs = append(errs, fmt.Errorf("APIServers is %d, want 1 to %d", o.APIServers, maxAPIServers))
	}
	if o.CompactionInterval < 0 {
		errs = append(errs, fmt.Errorf("CompactionInterval is negative: %s", o.CompactionInterval))
	}
	if o.Kubeconfig != "" {
		path, err := filepath.Abs(o.Kubeconfig)
		o.Kubeconfig, errs = path, append(errs, err)
	}
	return o, errors.Join(errs...)
}
