package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const maxAPIServers = 2

// Options of a cluster. The zero value is one API server of the newest version on
// one etcd, in a temp dir, without compaction.
type Options struct {
	// Version is that of Kubernetes: [Newest] (default) or [Oldest].
	Version string
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
	// Controllers starts kube-controller-manager and kube-scheduler too, on API
	// server 0.
	Controllers bool
	// Nodes is how many nodes kwok plays. It needs Controllers. Pods on such nodes
	// run after a moment, and those of Jobs succeed.
	Nodes int
	// PodSecurity enables the admission plugin PodSecurity: the labels
	// pod-security.kubernetes.io/* of a namespace apply.
	PodSecurity bool
	// NodeAuthorizer enables the Node authorizer beside RBAC: a user system:node:<name> in group
	// system:nodes may read what concerns that node.
	NodeAuthorizer bool
	// APIServerFlags are appended to the flags of every API server, and win over
	// the flags set here: "--event-ttl=10m".
	APIServerFlags []string
	// Binary is the control plane binary. Default: the one package binary finds
	// or builds.
	Binary string
}

func (o Options) withDefaults() (Options, error) {
	if o.Version == "" {
		o.Version = Newest
	}
	if o.APIServers == 0 {
		o.APIServers = 1
	}
	errs := []error{o.checkVersion()}
	if o.Nodes < 0 || o.Nodes > 0 && !o.Controllers {
		errs = append(errs, fmt.Errorf("%d nodes need Controllers", o.Nodes))
	}
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

func (o Options) authorizers() []string {
	if o.NodeAuthorizer {
		return []string{"Node", "RBAC"}
	}
	return []string{"RBAC"}
}
