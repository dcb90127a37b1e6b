package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// writers is how many goroutines write at the same time.
const writers = 16

// InParallel calls do with 0 to n-1 from several goroutines, and fails the test with the first error.
func InParallel(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n && !t.Failed(); i += writers {
				if err := do(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// CreateNamespace creates a namespace.
func CreateNamespace(t *testing.T, client dynamic.Interface, name string) {
	t.Helper()
	ns := &unstructured.Unstructured{}
	ns.SetName(name)
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	Create(t, client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}), ns)
}

// CreateConfigMap creates a ConfigMap.
func CreateConfigMap(t *testing.T, client dynamic.ResourceInterface, name string, data map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetName(name)
	if data != nil {
		o.Object["data"] = data
	}
	Create(t, client, o)
}

// Create creates an object.
func Create(t *testing.T, client dynamic.ResourceInterface, o *unstructured.Unstructured, subresources ...string) {
	t.Helper()
	_, err := client.Create(t.Context(), o, metav1.CreateOptions{}, subresources...)
	Must(t, err)
}

// Patch merges a patch into an object.
func Patch(t *testing.T, client dynamic.ResourceInterface, name, patch string, subresources ...string) {
	t.Helper()
	_, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	Must(t, err)
}

// Noise is bytes that cannot be compressed.
func Noise(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// StoreAccounts puts ServiceAccounts of 1 KB into etcd, in a number of namespaces, and returns the entry that watches
// each namespace with a target of its own.
func StoreAccounts(t *testing.T, c *cluster.Cluster, objects, namespaces int) (entry string) {
	t.Helper()
	put, names := Directly(t, c), make([]string, namespaces)
	metadata := func(name, namespace string) map[string]any {
		return map[string]any{
			"name": name, "namespace": namespace, "uid": uuid.NewUUID(), "creationTimestamp": time.Now().UTC().Format(time.RFC3339),
			"annotations": map[string]any{"content": strings.Repeat("configuration = \"value\"\n", 30)},
		}
	}
	for i := range names {
		names[i] = fmt.Sprint("many-", i)
		namespace := map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": metadata(names[i], ""), "status": map[string]any{"phase": "Active"}}
		Must(t, put(t.Context(), "/registry/namespaces/"+names[i], namespace))
	}
	InParallel(t, objects, func(ctx context.Context, i int) error {
		namespace, name := names[i%namespaces], fmt.Sprint("object-", i)
		return put(ctx, "/registry/serviceaccounts/"+namespace+"/"+name, map[string]any{
			"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata(name, namespace),
		})
	})
	return fmt.Sprintf("- {resource: serviceaccounts, namespaces: [%s]}", strings.Join(names, ", "))
}

// Putter puts an object into etcd.
type Putter func(ctx context.Context, key string, object map[string]any) error

// Directly returns a function that puts objects into etcd, as the API server would do it
// but several times as fast.
func Directly(t *testing.T, c *cluster.Cluster) Putter {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
	t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context, key string, object map[string]any) error {
		value, err := json.Marshal(object)
		if err != nil {
			return err
		}
		body, err := json.Marshal(map[string]string{
			"key": base64.StdEncoding.EncodeToString([]byte(key)), "value": base64.StdEncoding.EncodeToString(value),
		})
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.EtcdEndpoint()+"/v3/kv/put", bytes.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
}

// Values of Secrets, as the API holds them.
const (
	Canary      = "Y2FuYXJ5LXZhbHVl"
	OtherCanary = "c2Vjb25kLWNhbmFyeQ=="
)
