package config

import "time"

// Replicas makes several processes one informd: one of them leads, and the others copy its log and take
// over. It needs a log journal. Absent: a single process.
type Replicas struct {
	// Lease is the name of the Kubernetes Lease that says which process leads. It is required with the
	// other keys.
	Lease string `yaml:"lease"`
	// Namespace is that of the Lease. Default: the namespace of the Pod, else that of the kubeconfig.
	Namespace string `yaml:"namespace"`
	// Duration is how long the Lease outlives a process that has stopped without a word: 2s to 60s, in
	// whole seconds.
	Duration time.Duration `yaml:"duration"`
	// Address is host:port at which the other processes reach this one's admin server. Default:
	// admin.listen, where that names a host.
	Address string `yaml:"address"`
}

// Wanted reports whether the config has replicas.
func (r *Replicas) Wanted() bool { return r.Lease != "" }

// DefaultLeaseDuration is that of the Lease.
const DefaultLeaseDuration = 8 * time.Second
