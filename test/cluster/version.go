package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/informd/informd/test/cluster/binary"
)

// The versions of Kubernetes that a cluster can have.
const (
	Newest = "1.37.1"
	Oldest = "1.32.0" // with etcd 3.5, without etcdutl
)

// findBinary returns the control plane that the options ask for.
func (o *Options) findBinary(ctx context.Context) (string, error) {
	if o.Version == Oldest {
		return binary.ControlPlane132(ctx)
	}
	return binary.ControlPlane(ctx)
}

func (o *Options) checkVersion() error {
	if o.Version == Newest {
		return nil
	}
	if o.Version != Oldest {
		return fmt.Errorf("version is %q, want %s or %s", o.Version, Newest, Oldest)
	}
	if o.Controllers {
		return fmt.Errorf("option Controllers needs version %s", Newest)
	}
	return nil
}

// featureGates are the feature gates that the options change. A server refuses to
// start with one that it does not know.
func (o *Options) featureGates() []string {
	if o.NoListSnapshots && o.Version != Oldest { // the oldest has no snapshots
		return []string{"--feature-gates=ListFromCacheSnapshot=false"}
	}
	return nil
}

// disabledAdmission lists the plugins that are on by default and either need
// controllers that do not run (ServiceAccount would refuse every Pod), or change
// or refuse objects in ways that a test of informd only has to work around.
func (o *Options) disabledAdmission() []string {
	plugins := []string{
		"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction",
		"ClusterTrustBundleAttest", "DefaultIngressClass", "DefaultStorageClass",
		"DefaultTolerationSeconds", "LimitRanger", "PersistentVolumeClaimResize",
		"PodSecurity", "PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass",
		"ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition",
	}
	if o.Version == Oldest {
		plugins = slices.DeleteFunc(plugins, func(name string) bool { return name == "PodTopologyLabels" })
	}
	if o.PodSecurity {
		plugins = slices.DeleteFunc(plugins, func(name string) bool { return name == "PodSecurity" })
	}
	return plugins
}
