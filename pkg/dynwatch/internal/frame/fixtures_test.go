package frame_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// pod returns a Pod of about 8.5 KB, a third of it managedFields, as the API
// server writes it into a watch frame.
func pod(name string, rv uint64) []byte {
	var fields bytes.Buffer
	fields.WriteString(`{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:tier":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"9c2f77a8-45f6-4c1e-8d6a-0a1f6c8f7f00\"}":{}}},"f:spec":{"f:containers":{`)
	for i := range 3 {
		if i > 0 {
			fields.WriteByte(',')
		}
		fmt.Fprintf(&fields, `"k:{\"name\":\"c%d\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"POD_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{},"f:successThreshold":{},"f:timeoutSeconds":{}},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{},"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/data\"}":{".":{},"f:mountPath":{},"f:name":{}}}}`, i)
	}
	fields.WriteString(`},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`)

	var containers, statuses bytes.Buffer
	for i := range 3 {
		if i > 0 {
			containers.WriteByte(',')
			statuses.WriteByte(',')
		}
		fmt.Fprintf(&containers, `{"name":"c%d","image":"registry.example.com/shop/web:v1.%d.0","command":["/bin/web","--listen=:8080","--greeting=\"hello\" <you> & all"],"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}},{"name":"MODE","value":"prod\nüber"}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"data","mountPath":"/data"},{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`, i, i)
		fmt.Fprintf(&statuses, `{"name":"c%d","state":{"running":{"startedAt":"2026-11-20T10:00:0%dZ"}},"lastState":{},"ready":true,"restartCount":0,"image":"registry.example.com/shop/web:v1.%d.0","imageID":"registry.example.com/shop/web@sha256:0b1c2d3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccddeeff0","containerID":"containerd://8f2b6f0c9a1d4e7b8c5a2f3e6d9c0b1a8f2b6f0c9a1d4e7b8c5a2f3e6d9c0b1a","started":true}`, i, i, i)
	}
	return fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"generateName":"web-","namespace":"shop","uid":"3f0f5a4e-1111-4222-8333-%012d","resourceVersion":"%d","generation":1,"creationTimestamp":"2026-11-20T10:00:00Z","labels":{"app":"web","pod-template-hash":"5d4f8c7b9","tier":"front"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"annotations\":{},\"name\":\"web\"}}\n"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d4f8c7b9","uid":"9c2f77a8-45f6-4c1e-8d6a-0a1f6c8f7f00","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-11-20T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":%s},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-11-20T10:00:03Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:startTime":{}}},"subresource":"status"}]},"spec":{"volumes":[{"name":"data","emptyDir":{}},{"name":"kube-api-access-abcde","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}],"defaultMode":420}}],"containers":[%s],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"web","nodeName":"node-17","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-20T10:00:03Z"},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-20T10:00:00Z"}],"hostIP":"10.0.0.17","podIP":"10.244.3.9","podIPs":[{"ip":"10.244.3.9"}],"startTime":"2026-11-20T10:00:00Z","containerStatuses":[%s],"qosClass":"Burstable"}}`,
		name, rv, rv, fields.Bytes(), containers.Bytes(), statuses.Bytes())
}

// generator makes random JSON.
type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

// canary is what no output may hold: the plain value of a Secret.
const canary = "Y2FuYXJ5LXZhbHVl"

func secretObject(rv uint64) []byte {
	return fmt.Appendf(nil, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"db","namespace":"shop","uid":"u-secret","resourceVersion":"%d","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"%s\"}}","kapp.k14s.io/original":"{\"data\":{\"password\":\"%s\"}}"},"managedFields":[{"manager":"kubectl"}]},"data":{"password":"%s","user":"%s"},"stringData":{"note":"%s"},"type":"Opaque"}`, rv, canary, canary, canary, canary, canary)
}

func configMap(size int) []byte {
	const line = `key=\"value\" # ü, <b> and a tab\t\n`
	return fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"big","namespace":"shop","uid":"u-big","resourceVersion":"77"},"data":{"file":"%s"}}`,
		strings.Repeat(line, size/len(line)))
}

// objects are the seeds of the fuzz tests: what real servers send, and what they
// do not.
func objects() map[string][]byte {
	return map[string][]byte{
		"pod":                  pod("web-5d4f8c7b9-x2x4z", 12345),
		"secret":               secretObject(7),
		"configmap":            configMap(4 << 10),
		"list item":            []byte(`{"metadata":{"name":"web","namespace":"shop","uid":"u1","resourceVersion":"5","creationTimestamp":"2026-11-20T10:00:00Z"},"spec":{"replicas":3,"template":{"spec":{"containers":null}}},"status":{}}`),
		"custom":               []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"{}\n"},"creationTimestamp":"2026-11-20T10:00:00Z","generation":2,"managedFields":[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}},"manager":"kubectl","operation":"Update"}],"name":"w","namespace":"shop","resourceVersion":"18446744073709551615","uid":"u2"},"spec":{"big":123456789012345678901234567890,"float":1.0e+10,"neg":-0.5E-3}}`),
		"partial":              []byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"n","uid":"u3","resourceVersion":"9","managedFields":[]}}`),
		"rbac":                 []byte(`{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"system:controller:a b*\u003e é\ud83d\ude00\"","uid":"u4","resourceVersion":"10"},"rules":[]}`),
		"metadata last":        []byte(`{"spec":{"a":[1,2,{"b":null}],"c":true},"apiVersion":"v9","metadata":{"managedFields":[1],"uid":"u","resourceVersion":"3","name":"n"},"kind":"X"}`),
		"pretty":               []byte("{\r\n\t\"kind\" : \"Pod\",\n  \"metadata\": {\n \"managedFields\" : [ ] , \"name\": \"a b\",\n \"annotations\" : { \"kubectl.kubernetes.io/last-applied-configuration\" : \"x\" } ,\"uid\":\"u\" , \"resourceVersion\": \"1\" }\n, \"spec\" : [ 1 , { } , [ ] ]\n}\n"),
		"escaped keys":         []byte(`{"m\u0065tadata":{"n\u0061me":"\u006e\ud800\u0041","u\u0069d":"u","resourc\u0065Version":"\u0031","managedFi\u0065lds":{},"annotations":{"kubectl.kubernetes.io\/last-applied-configuration":1,"k":"v"}},"k\u0069nd":1}`),
		"twice":                []byte(`{"metadata":{"name":"a","n\u0061me":"b","uid":"u","resourceVersion":"1"}}`),
		"twice kept":           []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1","labels":{"a":"1","a":"2"}},"spec":1,"spec":2}`),
		"metadata twice":       []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"metadata":{"name":"b"}}`),
		"only cut annotations": []byte(`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":""},"name":"a","uid":"u","resourceVersion":"1"}}`),
		"empty annotations":    []byte(`{"metadata":{"annotations":{},"name":"a","uid":"u","resourceVersion":"1"}}`),
		"null annotations":     []byte(`{"metadata":{"annotations":null,"name":"a","uid":"u","resourceVersion":"1"}}`),
		"odd secret":           []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"data":{"a":1,"b":"x"},"stringData":[ "x" , 2 ]}`),
		"no uid":               []byte(`{"metadata":{"name":"a","resourceVersion":"1"}}`),
		"zero revision":        []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"0"}}`),
		"long revision":        []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"18446744073709551616"}}`),
		"number for name":      []byte(`{"metadata":{"name":1,"uid":"u","resourceVersion":"1"}}`),
		"bad number":           []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":01}`),
		"bad escape":           []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":"\x"}`),
		"control character":    []byte("{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\"},\"spec\":\"a\tb\"}"),
		"not utf-8":            []byte("{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\"},\"spec\":\"a\xffb\"}"),
		"trailing":             []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}{}`),
		"trailing comma":       []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},}`),
		"cut":                  []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":{"a":[`),
		"array":                []byte(`[{"metadata":{}}]`),
		"deep":                 deep(200),
		"empty":                nil,
	}
}

// deep returns an object that nests to the depth.
func deep(depth int) []byte {
	return []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":` +
		strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}")
}

// closed returns the normalised object inside o's Data, whose room it uses.
func closed(tb testing.TB, o *frame.Object) []byte {
	tb.Helper()
	before := &o.Data[0]
	e := event.Event{Data: form.CloseDeletedData(o.Data, false)}
	if &e.Data[0] != before {
		tb.Error("closing the data moved it: there was no room")
	}
	object := e.Object()
	if !json.Valid(object) {
		tb.Fatalf("the normalised object is not valid JSON: %s", object)
	}
	return object
}
