package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/cluster/proc"
	"github.com/informd/informd/test/natsserver"
)

const (
	informdUser = "informd"
	busStream   = "CHAOS"
	busPrefix   = "chaos"
	maxPayload  = 8 << 20
	eventTTL    = "--event-ttl=90s"
)

// Rig is all that a run consists of, each part replaceable while it runs.
type Rig struct {
	options Options
	kinds   []*Kind
	targets map[string]bool
	dir     *proc.Dir
	disks   []*Disk        // one per informd
	closers []func() error // in the order of creation

	cluster  *cluster.Cluster
	servers  []*proc.Process // the API servers
	hosts    []string        // and their host:ports
	etcdLink *Link           // between the second API server and etcd
	apiLink  *Link           // between informds and the API servers
	route    *Route          // where apiLink leads to
	bus      *natsserver.Server
	busLink  *Link // between informds and the bus
	hook     *Hook
	file     *consumer // reads nothing with several informds
	stream   *consumer
	view     *Viewer // none with the baseline
	oracle   *Oracle
	informds []*Daemon
	sides    []*side  // one per informd
	witness  *witness // nil with a single informd

	mu         sync.Mutex
	violations []Violation // that faults have seen themselves

	rbac    *kubernetes.Clientset
	dynamic []dynamic.Interface // of the administrator, one per API server
	tenant  []dynamic.Interface // of the tenant, one per API server
}

// NewRig starts everything but informd. After an error nothing is left; otherwise
// the caller has to Close.
func NewRig(ctx context.Context, options Options) (*Rig, error) {
	r := &Rig{options: options, kinds: kinds(), targets: make(map[string]bool)}
	switch {
	case options.Independent:
		r.kinds = independentKinds()
	case options.Baseline: // it has no selectors
		r.kinds = slices.DeleteFunc(r.kinds, func(k *Kind) bool { return !k.rule().plain() })
	}
	for _, k := range r.kinds {
		r.targets[k.target()] = true
	}
	r.file, r.stream = newConsumer("file", r.targets), newConsumer("nats", r.targets)
	r.stream.unique = !options.Baseline
	if err := r.start(ctx); err != nil {
		return nil, fmt.Errorf("start the rig: %w", errors.Join(err, r.Close()))
	}
	return r, nil
}

// Close ends everything, the last started first.
func (r *Rig) Close() error {
	var errs []error
	for _, closer := range slices.Backward(r.closers) {
		errs = append(errs, closer())
	}
	r.closers = nil
	return errors.Join(errs...)
}

func (r *Rig) closing(closer func() error) { r.closers = append(r.closers, closer) }

func (r *Rig) start(ctx context.Context) error {
	var err error
	sweepDisks()
	if r.dir, err = proc.TempDir("chaos"); err != nil {
		return err
	}
	r.closing(r.dir.Close)
	if err := os.WriteFile(r.redactionKey(), []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return err
	}
	if r.hook, err = NewHook(r.targets, r.options.Seed); err != nil {
		return err
	}
	r.closing(r.hook.Close)
	for i := range r.options.Informds {
		disk, err := newDisk(r.dir.Join(), i)
		if err != nil {
			return err
		}
		r.disks = append(r.disks, disk)
		r.closing(disk.Close)
	}
	for _, step := range []func(context.Context) error{r.startCluster, r.startSinks, r.prepareCluster, r.findBinary} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rig) startCluster(ctx context.Context) error {
	var err error
	options := cluster.Options{
		APIServerFlags: []string{"--storage-media-type=application/json", eventTTL}, NoListSnapshots: true, EtcdQuotaBytes: 8 << 30,
	}
	if r.options.Independent {
		options.Controllers, options.Nodes = true, independentNodes
	}
	if r.cluster, err = cluster.New(ctx, options); err != nil {
		return err
	}
	r.closing(r.cluster.Close)
	if r.options.Independent {
		if err := r.discoverKinds(); err != nil {
			return err
		}
	}
	r.oracle, err = NewOracle(r.cluster.EtcdEndpoint(), r.kinds, r.expect, r.await)
	if err != nil {
		return err
	}
	r.closing(r.oracle.Close)
	etcd, err := url.Parse(r.cluster.EtcdEndpoint())
	if err != nil {
		return err
	}
	if r.etcdLink, err = r.link(etcd.Host); err != nil {
		return err
	}
	twin, port, err := startTwin(ctx, r.cluster, r.dir, r.etcdLink, r.options.SecondVersion)
	if err != nil {
		return err
	}
	r.closing(func() error { port.Release(); return twin.Kill() })
	first, err := url.Parse(r.cluster.Endpoint(0))
	if err != nil {
		return err
	}
	r.servers = []*proc.Process{r.cluster.APIServer(0), twin}
	r.hosts = []string{first.Host, port.Address()}
	r.apiLink, err = r.link(first.Host)
	return err
}

func (r *Rig) link(backend string) (*Link, error) {
	link, err := NewLink(backend)
	if err == nil {
		r.closing(link.Close)
	}
	return link, err
}

// expect tells the consumers what is to come.
func (r *Rig) expect(o *Object, revision Revision) {
	for _, c := range r.consumers() {
		c.tracker.Expect(o, revision)
	}
}

// await tells the consumers how an object is to end up, of a resource of which not every
// revision is an event.
func (r *Rig) await(o *Object, s state) {
	for _, c := range r.consumers() {
		c.tracker.Await(o, s)
	}
}

// consumers are those of the sinks that the run has, the promptest first.
func (r *Rig) consumers() []*consumer {
	switch {
	case r.options.Baseline:
		return []*consumer{r.stream}
	case r.options.paired():
		return []*consumer{r.stream, r.hook.consumer}
	default:
		return []*consumer{r.file, r.stream, r.hook.consumer}
	}
}

func (r *Rig) startSinks(ctx context.Context) error {
	var err error
	if err := r.startBus(ctx); err != nil {
		return err
	}
	if r.options.Baseline {
		r.stream.start(func(ctx context.Context) { r.stream.followStream(ctx, r.bus.URL(), busStream, decodeBaseline) })
		r.closing(func() error { r.stream.close(); return nil })
		return nil
	}
	if !r.options.paired() {
		r.file.start(func(ctx context.Context) { r.file.followFile(ctx, r.eventsPath()) })
		r.closing(func() error { r.file.close(); return nil })
	}
	r.stream.start(func(ctx context.Context) { r.stream.followStream(ctx, r.bus.URL(), busStream, decodeMessage) })
	r.closing(func() error { r.stream.close(); return nil })
	if r.view, err = NewViewer(r.bus.URL()); err != nil {
		return err
	}
	r.closing(r.view.Close)
	return nil
}

func (r *Rig) startBus(ctx context.Context) error {
	var err error
	if r.bus, err = natsserver.New(ctx, natsserver.Options{MaxPayload: maxPayload, MaxStore: 16 << 30}); err != nil {
		return err
	}
	r.closing(r.bus.Close)
	address, err := url.Parse(r.bus.URL())
	if err != nil {
		return err
	}
	r.busLink, err = r.link(address.Host)
	return err
}

// prepareCluster gives informd its rights and installs the custom resources.
func (r *Rig) prepareCluster(ctx context.Context) error {
	for _, host := range r.hosts {
		config := r.cluster.RESTConfig()
		config.Host = "https://" + host
		config.Timeout = requestTimeout
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		r.dynamic = append(r.dynamic, client)
	}
	err := r.addTenant()
	if err != nil {
		return err
	}
	if r.rbac, err = kubernetes.NewForConfig(r.cluster.RESTConfig()); err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: informdUser},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}},
	}
	if r.options.paired() {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "update"}})
	}
	if _, err := r.rbac.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := r.grant(ctx); err != nil {
		return err
	}
	for _, k := range r.kinds {
		if !k.custom {
			continue
		}
		if err := r.define(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// grant gives informd the right to read everything.
func (r *Rig) grant(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: informdUser},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: informdUser}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: informdUser},
	}
	_, err := r.rbac.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the answer to an earlier attempt was lost
	}
	return err
}

// revoke takes it away.
func (r *Rig) revoke(ctx context.Context) error {
	err := r.rbac.RbacV1().ClusterRoleBindings().Delete(ctx, informdUser, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the answer to an earlier attempt was lost
	}
	return err
}

// violate notes a violation that shows only while a fault lasts.
func (r *Rig) violate(v Violation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, v)
}

// findBinary builds what is to be tested.
func (r *Rig) findBinary(ctx context.Context) error {
	if r.options.Binary != "" {
		return nil
	}
	r.options.Binary = r.dir.Join("informd")
	dir, source := "../..", "./cmd/informd"
	if r.options.Baseline {
		dir, source = ".", "./baseline"
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", r.options.Binary, source)
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return nil
}
