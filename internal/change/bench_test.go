package change_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/internal/change"
)

// pod returns a normalised Pod of about 6.5 KB.
func pod(revision, restarts int) []byte {
	var containers, statuses []string
	for i := range 4 {
		containers = append(containers, fmt.Sprintf(`{"name":"c%d","image":"registry.example.com/shop/web:v1.%d.0","command":["/bin/web","--listen=:8080","--greeting=\"hello\" <you> & all"],"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}},{"name":"MODE","value":"prod\nüber"}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"data","mountPath":"/data"},{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`, i, i))
		statuses = append(statuses, fmt.Sprintf(`{"name":"c%d","state":{"running":{"startedAt":"2026-11-20T10:00:0%dZ"}},"lastState":{},"ready":true,"restartCount":%d,"image":"registry.example.com/shop/web:v1.%d.0","imageID":"registry.example.com/shop/web@sha256:0b1c2d3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccddeeff0","containerID":"containerd://8f2b6f0c9a1d4e7b8c5a2f3e6d9c0b1a8f2b6f0c9a1d4e7b8c5a2f3e6d9c0b1a","started":true}`, i, i, restarts*(i%2), i))
	}
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-5d4f8c7b9-x2x4z","generateName":"web-","namespace":"shop","uid":"3f0f5a4e-1111-4222-8333-000000000001","resourceVersion":"%d","generation":1,"creationTimestamp":"2026-11-20T10:00:00Z","labels":{"app":"web","pod-template-hash":"5d4f8c7b9","tier":"front"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d4f8c7b9","uid":"9c2f77a8-45f6-4c1e-8d6a-0a1f6c8f7f00","controller":true,"blockOwnerDeletion":true}]},"spec":{"volumes":[{"name":"data","emptyDir":{}}],"containers":[%s],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"web","nodeName":"node-17","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-20T10:00:03Z"},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-20T10:00:00Z"}],"hostIP":"10.0.0.17","podIP":"10.244.3.9","podIPs":[{"ip":"10.244.3.9"}],"startTime":"2026-11-20T10:00:00Z","containerStatuses":[%s],"qosClass":"Burstable"}}`,
		revision, strings.Join(containers, ","), strings.Join(statuses, ","))
}

func configMap(size, revision int) []byte {
	const line = `key=\"value\" # ü, <b> and a tab\t\n`
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big","resourceVersion":"%d"},"data":{"file":"%s"}}`, revision, strings.Repeat(line, size/len(line)))
}

func BenchmarkOf(b *testing.B) {
	for _, bb := range []struct {
		name          string
		before, after []byte
		render        func(*change.Set, []byte) []byte
	}{
		{"pod/paths", pod(12345, 9), pod(12346, 10), (*change.Set).AppendPaths},
		{"pod/patch", pod(12345, 9), pod(12346, 10), (*change.Set).AppendPatch},
		{"pod/equal", pod(12345, 9), pod(12345, 9), (*change.Set).AppendPatch},
		{"configmap 1.5MiB/patch", configMap(3<<19, 9), configMap(3<<19, 10), (*change.Set).AppendPatch},
		{"nested 10,000/patch", deep("1"), deep("2"), (*change.Set).AppendPatch},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.after)))
			for b.Loop() {
				s, err := change.Of(bb.before, bb.after)
				if err != nil {
					b.Fatal(err)
				}
				dst = bb.render(s, dst[:0])
			}
		})
	}
}

// deep returns an object that nests as deep as the normaliser lets it, with 1.5 MiB at
// the bottom.
func deep(inner string) []byte {
	return []byte(`{"a":` + strings.Repeat("[", 9_999) + strings.Repeat(`"x",`, 3<<17) + inner + strings.Repeat("]", 9_999) + "}")
}
