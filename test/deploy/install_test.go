package deploy_test

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
	"sigs.k8s.io/yaml"

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
		must(t, err)
		return s
	}

	// Until a release, the notes say how to build the image.
	const warning, build = "is not published", "make image"
	if text := run("install", "informd", chartOf(t, true), "--values", defaults); !strings.Contains(text, warning) || !strings.Contains(text, build) {
		t.Errorf("the notes do not say how to get the image:\n%s", text)
	}
	first := set()
	if text := run("upgrade", "informd", chartOf(t, true), "--values", defaults, "--set", "config.log.level=debug,image.repository=registry.example.com/informd"); strings.Contains(text, warning) {
		t.Errorf("with another image:\n%s", text)
	}
	if now := set(); now.UID != first.UID || now.Generation == first.Generation {
		t.Errorf("the upgrade does not change the StatefulSet in its place: %d, before %d", now.Generation, first.Generation)
	}
	if text := run("upgrade", "informd", chartOf(t, false), "--values", defaults); strings.Contains(text, warning) {
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

// chartOf is a copy of the chart, with or without the mark of one whose image is not published.
func chartOf(t *testing.T, unreleased bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "informd")
	must(t, os.CopyFS(dir, os.DirFS(chart)))
	file := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(file)
	must(t, err)
	var fields map[string]any
	must(t, yaml.Unmarshal(text, &fields))
	fields["annotations"] = map[string]any{"artifacthub.io/license": "Apache-2.0"}
	if unreleased {
		fields["annotations"] = map[string]any{"informd.dev/unreleased": "true"}
	}
	if text, err = yaml.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(file, text, 0o600))
	return dir
}
