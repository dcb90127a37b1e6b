package helm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/informd/informd/test/cluster"
)

// TestInstall installs, upgrades and uninstalls the chart in a cluster.
func TestInstall(t *testing.T) {
	c := cluster.Start(t, cluster.Options{PodSecurity: true})
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	run := func(args ...string) string {
		t.Helper()
		stdout, stderr, err := helm(t, append(args, "--namespace", "watch", "--kubeconfig", c.Kubeconfig())...)
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", args[0], err, stderr)
		}
		return stdout
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "watch", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	set := func() *appsv1.StatefulSet {
		t.Helper()
		s, err := client.AppsV1().StatefulSets("watch").Get(t.Context(), "informd", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	// Until a release, the notes say how to build the image.
	const warning, build = "is not published", "make image"
	if text := run("install", "informd", chart, "--values", defaults); !strings.Contains(text, warning) || !strings.Contains(text, build) {
		t.Errorf("the notes do not say how to get the image:\n%s", text)
	}
	first := set()
	if text := run("upgrade", "informd", chart, "--values", defaults, "--set", "config.log.level=debug,image.repository=registry.example.com/informd"); strings.Contains(text, warning) {
		t.Errorf("with another image:\n%s", text)
	}
	if now := set(); now.UID != first.UID || now.Generation == first.Generation {
		t.Errorf("the upgrade does not change the StatefulSet in its place: %d, before %d", now.Generation, first.Generation)
	}
	if text := run("upgrade", "informd", releasedChart(t), "--values", defaults); strings.Contains(text, warning) {
		t.Errorf("of a released chart:\n%s", text)
	}
	run("uninstall", "informd", "--wait")
	if _, err := client.AppsV1().StatefulSets("watch").Get(t.Context(), "informd", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the uninstallation: %v", err)
	}
	if roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=informd"}); err != nil || len(roles.Items) > 0 {
		t.Errorf("after the uninstallation there are %d cluster roles, %v", len(roles.Items), err)
	}
}

// releasedChart is a copy of the chart without the mark of one whose image is not published.
func releasedChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "informd")
	if err := os.CopyFS(dir, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), "  informd.dev/unreleased:")
	if !found {
		t.Fatal("Chart.yaml has no annotation informd.dev/unreleased")
	}
	_, after, _ = strings.Cut(after, "\n")
	if err := os.WriteFile(file, []byte(before+after), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
