package watching_test

import (
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// An object in etcd becomes unreadable, and an administrator deletes its key. No request for a
// revision between the two is ever answered, as etcd is not compacted. The resource goes on all the
// same: the deletion comes, and what is new.
func TestUnreadableObject(t *testing.T) {
	const (
		key = "/registry/configmaps/default/broken"
		// The API server reads its storage again after up to 34 s, an error lasts after a minute, and
		// the machine may be busy.
		bound = 5 * time.Minute
	)
	t.Parallel() // it waits for minutes
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	configMaps := client.Resource(e2e.ConfigMapKind().GVR).Namespace("default")
	for _, name := range []string{"broken", "same"} {
		e2e.CreateConfigMap(t, configMaps, name, nil)
	}
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}"})
	d.Start()
	d.WaitForSync(1)

	began := time.Now()
	e2e.Must(t, c.Put(t.Context(), key, "garbage"))
	<-time.After(5 * time.Second) // as long as the repair takes
	e2e.Must(t, c.Delete(t.Context(), key))
	e2e.CreateConfigMap(t, configMaps, "later", nil)
	there := func(name string) bool {
		_, ok := stateOf(d.Records(), true)["core/configmaps/"+name]
		return ok
	}
	for time.Since(began) < bound && (there("broken") || !there("later")) {
		<-time.After(100 * time.Millisecond)
	}
	if there("broken") || !there("later") || !there("same") {
		t.Fatalf("after %v: broken %t, later %t, same %t", time.Since(began), there("broken"), there("later"), there("same"))
	}
	t.Logf("complete after %v", time.Since(began))
	e2e.CreateConfigMap(t, configMaps, "live", nil)
	e2e.Eventually(t, "a live event", func() bool { return there("live") })
}
