package laststate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes objects as the API server has them, without what informd cuts out.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 1))} }

func (g generator) uid() string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", g.Uint32(), g.IntN(1<<16), g.IntN(1<<12), g.IntN(1<<12), g.Uint64()>>16)
}

func (g generator) hex(n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte("0123456789abcdef"[g.IntN(16)])
	}
	return b.String()
}

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

// deployment is what the Pods of a Deployment have in common.
type deployment struct {
	name, namespace, hash, owner string
	images                       []string
	spec                         string // of the containers
}

func (g generator) deployment() deployment {
	d := deployment{name: g.pick("web", "cart", "search", "billing", "mail", "auth") + "-" + g.hex(3), namespace: g.pick("shop", "shop-test", "platform"), hash: g.hex(9), owner: g.uid()}
	var containers []string
	for i := range 1 + g.IntN(3) {
		image := fmt.Sprintf("registry.example.com/%s/%s:v%d.%d.%d@sha256:%s", d.namespace, d.name, g.IntN(4), g.IntN(30), g.IntN(10), g.hex(64))
		d.images = append(d.images, image)
		var env []string
		for k := range g.IntN(12) {
			env = append(env, fmt.Sprintf(`{"name":"%s_%d","value":%q}`, g.pick("FEATURE", "URL", "LIMIT", "TOPIC"), k, g.pick("on", "off", "http://cart."+d.namespace+".svc:8080/"+g.hex(4), fmt.Sprint(g.IntN(5000)))))
		}
		containers = append(containers, fmt.Sprintf(`{"name":"c%d","image":%q,"args":["--listen=:%d","--log=%s"],"ports":[{"name":"http","containerPort":%d,"protocol":"TCP"}],"env":[%s],"resources":{"limits":{"cpu":"%dm","memory":"%dMi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"data","mountPath":"/data"},{"name":"kube-api-access-VOLUME","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`,
			i, image, 8000+g.IntN(100), g.pick("info", "debug"), 8000+g.IntN(100), strings.Join(env, ","), 100*g.IntN(20), 64*g.IntN(20)))
	}
	d.spec = strings.Join(containers, ",")
	return d
}

func (g generator) time() string {
	return fmt.Sprintf("2026-11-%02dT%02d:%02d:%02dZ", 1+g.IntN(28), g.IntN(24), g.IntN(60), g.IntN(60))
}

// pod returns a Pod of the Deployment, running, of 3 to 8 KB.
func (g generator) pod(d deployment) []byte {
	var statuses []string
	for i, image := range d.images {
		statuses = append(statuses, fmt.Sprintf(`{"name":"c%d","state":{"running":{"startedAt":%q}},"lastState":{},"ready":true,"restartCount":%d,"image":%q,"imageID":%q,"containerID":"containerd://%s","started":true}`, i, g.time(), g.IntN(3), image, image, g.hex(64)))
	}
	volume, ip, created := g.hex(5), fmt.Sprintf("10.244.%d.%d", g.IntN(256), g.IntN(256)), g.time()
	var conditions []string
	for _, kind := range []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		conditions = append(conditions, fmt.Sprintf(`{"type":%q,"status":"True","lastProbeTime":null,"lastTransitionTime":%q}`, kind, g.time()))
	}
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%[1]s-%[2]s-%[3]s","generateName":"%[1]s-%[2]s-","namespace":%[4]q,"uid":%[5]q,"resourceVersion":"%[6]d","generation":1,"creationTimestamp":%[7]q,"labels":{"app":%[1]q,"pod-template-hash":%[2]q},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%[1]s-%[2]s","uid":%[8]q,"controller":true,"blockOwnerDeletion":true}]},"spec":{"volumes":[{"name":"data","emptyDir":{}},{"name":"kube-api-access-%[9]s","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":[%[10]s],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":%[1]q,"serviceAccount":%[1]q,"nodeName":"node-%[11]d","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"observedGeneration":1,"phase":"Running","conditions":[%[12]s],"hostIP":"10.0.0.%[11]d","hostIPs":[{"ip":"10.0.0.%[11]d"}],"podIP":%[13]q,"podIPs":[{"ip":%[13]q}],"startTime":%[7]q,"containerStatuses":[%[14]s],"qosClass":"Burstable"}}`,
		d.name, d.hash, g.hex(5), d.namespace, g.uid(), g.IntN(1<<30), created, d.owner, volume, strings.ReplaceAll(d.spec, "VOLUME", volume), g.IntN(200), strings.Join(conditions, ","), ip, strings.Join(statuses, ","))
}

// configMap returns a ConfigMap of 0.5 to 8 KB that has nothing of another one.
func (g generator) configMap() []byte {
	var lines strings.Builder
	for range 5 + g.IntN(150) {
		fmt.Fprintf(&lines, `%s.%s = %s%d\n`, g.pick("server", "log", "cache", "retry", "pool", "tls"), g.word(), g.word(), g.IntN(1000))
	}
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s-%s","namespace":%q,"uid":%q,"resourceVersion":"%d","creationTimestamp":%q},"data":{"%s.conf":"%s"}}`,
		g.word(), g.word(), g.pick("shop", "shop-test", "platform"), g.uid(), g.IntN(1<<30), g.time(), g.word(), lines.String())
}

func (g generator) word() string {
	var b strings.Builder
	for range 2 + g.IntN(3) {
		b.WriteString(g.pick("ba", "co", "di", "fu", "ge", "ha", "ki", "lo", "mi", "ne", "po", "ra", "so", "tu", "va", "we"))
	}
	return b.String()
}

// list returns Pods in the order in which a list has them, by Deployment.
func (g generator) pods(deployments, replicas int) (all [][]byte, of []deployment) {
	for range deployments {
		d := g.deployment()
		of = append(of, d)
		for range replicas {
			all = append(all, g.pod(d))
		}
	}
	return all, of
}
