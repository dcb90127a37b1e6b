package cluster_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/test/cluster"
)

const (
	namespace = "default"
	patience  = 30 * time.Second // for what takes a moment, on a busy machine
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns a clientset whose connections end with the test.
func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	clientset, err := kubernetes.NewForConfigAndClient(config, httpClient)
	must(t, err)
	return clientset
}

func create(ctx context.Context, t *testing.T, c *kubernetes.Clientset, name string) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	created, err := c.CoreV1().ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{})
	must(t, err)
	return created
}

// eventually polls until done returns true, and fails the test if it never does.
func eventually(ctx context.Context, t *testing.T, what string, done func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return done(ctx), nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestControlPlaneIsRealAndKeepsItsPortAndData(t *testing.T) {
	ctx := t.Context()
	c := cluster.Start(t, cluster.Options{})
	admin := client(t, c.RESTConfig())

	version, err := admin.Discovery().ServerVersion()
	must(t, err)
	if version.GitVersion != "v1.37.1" || version.Major != "1" || version.Minor != "37" {
		t.Errorf("version is %s (%s.%s), want v1.37.1 (1.37)", version.GitVersion, version.Major, version.Minor)
	}
	want := create(ctx, t, admin, "survivor")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	if _, err := admin.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Errorf("create a Pod without a service account: %v", err)
	}

	restarts := map[string]func() error{
		"API server killed": func() error {
			return errors.Join(c.APIServer(0).Kill(), c.APIServer(0).Start(ctx))
		},
		"API server stopped": func() error {
			return errors.Join(c.APIServer(0).Stop(), c.APIServer(0).Start(ctx))
		},
		"etcd killed": func() error {
			return errors.Join(c.Etcd().Kill(), c.Etcd().Start(ctx))
		},
	}
	for name, restart := range restarts {
		if err := restart(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		eventually(ctx, t, name+": object is there", func(ctx context.Context) bool {
			got, err := admin.CoreV1().ConfigMaps(namespace).Get(ctx, want.Name, metav1.GetOptions{})
			return err == nil && got.UID == want.UID && got.ResourceVersion == want.ResourceVersion
		})
	}
}

func TestCompactionEndsHistory(t *testing.T) {
	byName := metav1.ListOptions{FieldSelector: "metadata.name=first"}
	for name, test := range map[string]struct {
		options cluster.Options
		list    metav1.ListOptions
	}{
		"list by name":                 {cluster.Options{}, byName},
		"collection without snapshots": {cluster.Options{NoListSnapshots: true}, metav1.ListOptions{}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c := cluster.Start(t, test.options)
			admin := client(t, c.RESTConfig())
			first := create(ctx, t, admin, "first")
			create(ctx, t, admin, "second")

			exact := test.list
			exact.ResourceVersion = first.ResourceVersion
			exact.ResourceVersionMatch = metav1.ResourceVersionMatchExact
			configMaps := admin.CoreV1().ConfigMaps(namespace)
			before, err := configMaps.List(ctx, exact)
			if err != nil || before.ResourceVersion != first.ResourceVersion {
				t.Fatalf("list before compaction: %v, at %s", err, before.ResourceVersion)
			}
			head, err := c.Revision(ctx)
			must(t, err)
			compacted, err := c.Compact(ctx)
			if err != nil || compacted < head {
				t.Fatalf("compacted to %d, %v; head was %d before", compacted, err, head)
			}
			if _, err := configMaps.List(ctx, exact); !apierrors.IsResourceExpired(err) {
				t.Errorf("list after compaction: %v, want 410", err)
			}
			if again, err := c.Compact(ctx); err != nil || again <= compacted {
				t.Errorf("second compaction to %d, %v", again, err)
			}
		})
	}
}

func TestUsersHaveOnlyTheirOwnRights(t *testing.T) {
	ctx := t.Context()
	c := cluster.Start(t, cluster.Options{})
	user, err := c.AddUser("viewer@example.com", "viewers")
	must(t, err)
	fromFile, err := clientcmd.BuildConfigFromFlags("", user.Kubeconfig())
	must(t, err)
	for name, config := range map[string]*rest.Config{"REST config": user.RESTConfig(), "kubeconfig": fromFile} {
		_, err := client(t, config).CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: list Secrets: %v, want 403", name, err)
		}
	}
	expired, err := c.AddUserUntil(time.Now().Add(-time.Minute), "late")
	must(t, err)
	_, err = client(t, expired.RESTConfig()).CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("list with an expired certificate: %v, want 401", err)
	}
	adminConfig, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	must(t, err)
	if _, err := client(t, adminConfig).CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("list with the administrator's kubeconfig: %v", err)
	}
}

func TestTwoAPIServersShareOneEtcd(t *testing.T) {
	ctx := t.Context()
	c := cluster.Start(t, cluster.Options{APIServers: 2})
	for i := range 2 {
		own, other := client(t, c.RESTConfigFor(i)), client(t, c.RESTConfigFor(1-i))
		created := create(ctx, t, own, []string{"from-zero", "from-one"}[i])
		got, err := other.CoreV1().ConfigMaps(namespace).Get(ctx, created.Name, metav1.GetOptions{})
		if err != nil || got.UID != created.UID {
			t.Errorf("written through server %d, read through the other: %v", i, err)
		}
	}
	must(t, c.APIServer(0).Kill())
	create(ctx, t, client(t, c.RESTConfigFor(1)), "alone")
}

func TestFrozenAPIServerAnswersWhenThawed(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	admin := client(t, c.RESTConfig())
	create(t.Context(), t, admin, "object")
	must(t, c.APIServer(0).Freeze())
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := admin.CoreV1().ConfigMaps(namespace).Get(short, "object", metav1.GetOptions{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("read from a frozen server: %v, want a timeout", err)
	}
	must(t, c.APIServer(0).Thaw())
	eventually(t.Context(), t, "read after the thaw", func(ctx context.Context) bool {
		_, err := admin.CoreV1().ConfigMaps(namespace).Get(ctx, "object", metav1.GetOptions{})
		return err == nil
	})
}

func TestGracefulStopDoesNotWaitForWatches(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	watch, err := client(t, c.RESTConfig()).CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer watch.Stop()
	started := time.Now()
	must(t, c.APIServer(0).Stop())
	if took := time.Since(started); took > patience/2 {
		t.Errorf("stop took %s", took)
	}
	for range watch.ResultChan() { // ends, as the server is gone
	}
}

func TestDirectoryIsKeptAndContinued(t *testing.T) {
	ctx := t.Context()
	options := cluster.Options{Dir: t.TempDir(), Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	first, err := cluster.New(ctx, options)
	must(t, err)
	object := create(ctx, t, client(t, first.RESTConfig()), "kept")
	if _, err := cluster.New(ctx, options); err == nil {
		t.Error("a second cluster started in the same directory")
	}
	must(t, first.Close())
	if _, err := os.Stat(options.Kubeconfig); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("kubeconfig after close: %v", err)
	}
	second := cluster.Start(t, options)
	got, err := client(t, second.RESTConfig()).CoreV1().ConfigMaps(namespace).Get(ctx, "kept", metav1.GetOptions{})
	if err != nil || got.UID != object.UID {
		t.Errorf("object in the next cluster: %v", err)
	}
}

func TestForeignKubeconfigIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(path, []byte("apiVersion: v1\n"), 0o600))
	if _, err := cluster.New(t.Context(), cluster.Options{Kubeconfig: path}); err == nil {
		t.Error("started over a kubeconfig of somebody else")
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "apiVersion: v1\n" {
		t.Errorf("the file is now %q, %v", content, err)
	}
}

func TestFailedStartCarriesTheLogAndLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	_, err := cluster.New(t.Context(), cluster.Options{APIServerFlags: []string{"--no-such-flag"}})
	if err == nil {
		t.Fatal("started with an unknown flag")
	}
	if text := err.Error(); !strings.Contains(text, "kube-apiserver-0") || !strings.Contains(text, "no-such-flag") {
		t.Errorf("error lacks the process or its log: %v", err)
	}
	assertEmpty(t, temp)
}

func TestCloseLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	c, err := cluster.New(t.Context(), cluster.Options{APIServers: 2})
	must(t, err)
	exited := []<-chan struct{}{c.Etcd().Exited(), c.APIServer(0).Exited(), c.APIServer(1).Exited()}
	if err := c.APIServer(1).Freeze(); err != nil { // a frozen process goes too
		t.Fatal(err)
	}
	must(t, c.Close())
	for i, ended := range exited {
		select {
		case <-ended:
		default:
			t.Errorf("process %d still runs", i)
		}
	}
	assertEmpty(t, temp)
}

func TestRestoreBringsBackTheSnapshotAtAHigherRevision(t *testing.T) {
	const bump = 1000
	for name, test := range map[string]struct{ stopped bool }{
		"below a stopped API server": {stopped: true},
		"below a running API server": {},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c := cluster.Start(t, cluster.Options{})
			admin := client(t, c.RESTConfig())
			kept := create(ctx, t, admin, "kept")
			file := filepath.Join(t.TempDir(), "snapshot.db")
			must(t, c.SnapshotEtcd(ctx, file))
			create(ctx, t, admin, "lost")
			before, err := c.Revision(ctx)
			must(t, err)
			if test.stopped {
				must(t, c.APIServer(0).Stop())
			}
			must(t, c.RestoreEtcd(ctx, file, cluster.RestoreOptions{BumpRevision: bump, MarkCompacted: true}))
			if after, err := c.Revision(ctx); err != nil || after < before+bump/2 {
				t.Errorf("revision %d after the restore, %d before: %v", after, before, err)
			}
			if test.stopped {
				must(t, c.APIServer(0).Start(ctx))
			}
			configMaps := admin.CoreV1().ConfigMaps(namespace)
			eventually(ctx, t, "the state of the snapshot is served", func(ctx context.Context) bool {
				got, err := configMaps.Get(ctx, "kept", metav1.GetOptions{})
				_, lost := configMaps.Get(ctx, "lost", metav1.GetOptions{})
				return err == nil && got.UID == kept.UID && got.ResourceVersion == kept.ResourceVersion && apierrors.IsNotFound(lost)
			})
			exact := metav1.ListOptions{FieldSelector: "metadata.name=kept", ResourceVersion: kept.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
			if _, err := configMaps.List(ctx, exact); !apierrors.IsResourceExpired(err) {
				t.Errorf("list at a revision before the restore: %v, want 410", err)
			}
		})
	}
}

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 0 {
		t.Errorf("left behind in %s: %v", dir, entries)
	}
}
