package deploy_test

import (
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/pkg/sink/file"
	"github.com/informd/informd/pkg/sink/nats"
)

// files is the part of a kustomization that names files.
type files struct {
	Resources          []string
	ConfigMapGenerator []struct{ Files []string }
	Patches            []struct{ Path string }
}

// A file that no kustomization names is never applied, without an error.
func TestEveryFileIsUsed(t *testing.T) {
	used := make(map[string]bool)
	for _, dir := range append(kustomizations(), monitoring) {
		var k files
		text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
		must(t, err)
		must(t, yaml.Unmarshal(text, &k))
		used[filepath.Join(dir, "kustomization.yaml")] = true
		for _, r := range k.Resources {
			used[filepath.Join(dir, r)] = true
		}
		for _, p := range k.Patches {
			used[filepath.Join(dir, p.Path)] = true
		}
		for _, g := range k.ConfigMapGenerator {
			for _, file := range g.Files {
				used[filepath.Join(dir, file[strings.IndexByte(file, '=')+1:])] = true
			}
		}
	}
	err := filepath.WalkDir(root+"/deploy/kustomize", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !used[path] {
			t.Errorf("%s is in no kustomization", path)
		}
		return err
	})
	must(t, err)
}

// The API server refuses some of these mistakes and silently accepts others: a
// Service whose selector is wrong has no endpoints and no error.
func TestReferencesHold(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		account := only[*corev1.ServiceAccount](t, r).Name
		for _, w := range workloads(r) {
			if !selects(w.selector.MatchLabels, w.template.Labels) {
				t.Errorf("%s: selector %v does not match the pod's labels %v", w.name, w.selector.MatchLabels, w.template.Labels)
			}
			if name := w.template.Spec.ServiceAccountName; name != "" && name != account {
				t.Errorf("%s: service account %s is not defined", w.name, name)
			}
			checkMounts(t, w)
			for _, v := range w.template.Spec.Volumes {
				if v.ConfigMap != nil && of[*corev1.ConfigMap](r)[r.namespace+"/"+v.ConfigMap.Name] == nil {
					t.Errorf("%s: volume %s: config map %s is not generated", w.name, v.Name, v.ConfigMap.Name)
				}
			}
		}
		for _, s := range of[*corev1.Service](r) {
			if !slices.ContainsFunc(workloads(r), func(w workload) bool { return selects(s.Spec.Selector, w.template.Labels) }) {
				t.Errorf("service %s: selector %v matches no pod", s.Name, s.Spec.Selector)
			}
		}
	})
}

// With OrderedReady, a Pod that is not ready blocks the update that repairs it.
func TestUpdatesReachUnreadyPods(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		for _, s := range of[*appsv1.StatefulSet](r) {
			if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
				t.Errorf("%s: podManagementPolicy is %q, want %s", s.Name, s.Spec.PodManagementPolicy, appsv1.ParallelPodManagement)
			}
		}
	})
}

// namedPort returns the number of a container port.
func (w workload) namedPort(name string) (int32, bool) {
	for _, c := range w.containers() {
		for _, p := range c.Ports {
			if p.Name == name {
				return p.ContainerPort, true
			}
		}
	}
	return 0, false
}

// All objects with a namespace are in the one of the deployment, which enforces restricted Pods.
func TestNamespaces(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		for _, o := range r.objects {
			if ns := o.GetNamespace(); ns != "" && ns != r.namespace {
				t.Errorf("%s: namespace %s, not %s", o.GetName(), ns, r.namespace)
			}
		}
		for _, ns := range of[*corev1.Namespace](r) {
			if level := ns.Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
				t.Errorf("namespace %s: pod security %q, not restricted", ns.Name, level)
			}
		}
	})
}

// With a read-only root, informd can write where a volume is and nowhere else.
func TestDirectoriesAreWritable(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		c := parsed(t, r)
		directories := []string{c.Journal.Dir}
		for _, s := range c.Sinks {
			if options, ok := s.Options.(*file.Config); ok {
				directories = append(directories, path.Dir(options.Path))
			}
		}
		_, main := informdOf(t, r)
		for _, dir := range directories {
			if m := mountOf(main, dir+"/x"); m.Name == "" || m.ReadOnly {
				t.Errorf("%s is on no writable volume", dir)
			}
		}
	})
}

// People do not read a warning that every config gives.
func TestConfigsGiveNoWarning(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		for _, w := range parsed(t, r).Warnings {
			t.Error(w)
		}
	})
}

// The probes, the container's port and admin.listen are one thing in three places.
func TestProbesReachTheAdminServer(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		in, main := informdOf(t, r)
		listen := parsed(t, r).Admin.Listen
		host, port, err := net.SplitHostPort(listen)
		must(t, err)
		if host != "" {
			t.Errorf("admin.listen %s: the kubelet does not reach it", listen)
		}
		if main.LivenessProbe == nil {
			t.Fatal("no liveness probe")
		}
		for want, probe := range map[string]*corev1.Probe{"/healthz": main.LivenessProbe, "/readyz": main.ReadinessProbe} {
			if probe == nil {
				continue
			}
			number, ok := in.namedPort(probe.HTTPGet.Port.StrVal)
			if !ok || strconv.Itoa(int(number)) != port || probe.HTTPGet.Path != want {
				t.Errorf("probe asks %s on port %s, admin.listen is %s", probe.HTTPGet.Path, probe.HTTPGet.Port.String(), listen)
			}
		}
	})
}

// A service that leads to a closed port is found out at the first scrape, or never.
func TestServicePortsAreOpen(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		for _, s := range of[*corev1.Service](r) {
			for _, w := range workloads(r) {
				if !selects(s.Spec.Selector, w.template.Labels) {
					continue
				}
				for _, p := range s.Spec.Ports {
					if number, ok := w.namedPort(p.TargetPort.StrVal); !ok || !slices.Contains(ingressPorts(r, w), number) {
						t.Errorf("service %s: port %s of %s is missing or closed: %d", s.Name, p.Name, w.name, number)
					}
				}
			}
		}
	})
}

// The servers of a sink are behind open ports. One without a domain is a service of the deployment.
func TestSinksAreReachable(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		in, _ := informdOf(t, r)
		for _, s := range parsed(t, r).Sinks {
			if options, ok := s.Options.(*nats.Config); ok {
				for _, server := range options.Servers.Reveal() {
					checkReachable(t, r, in, server)
				}
			}
		}
	})
}

func checkReachable(t *testing.T, r release, from workload, server string) {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	must(t, err)
	if !slices.Contains(egressPorts(r, from), int32(port)) {
		t.Errorf("sink server %s: the network policy lets nothing out to port %d", server, port)
	}
	if strings.Contains(u.Hostname(), ".") {
		return // in another namespace
	}
	service := of[*corev1.Service](r)[r.namespace+"/"+u.Hostname()]
	has := func(p corev1.ServicePort) bool { return p.Port == int32(port) }
	if service == nil || !slices.ContainsFunc(service.Spec.Ports, has) {
		t.Errorf("sink server %s: there is no service %s with port %d", server, u.Hostname(), port)
	}
}

// The kubelet must not kill informd while it still drains.
func TestGracePeriodOutlastsTheDrain(t *testing.T) {
	const drain, reserve = 15, 5 // seconds; drain is the daemon's grace
	eachKustomization(t, func(t *testing.T, r release) {
		in, _ := informdOf(t, r)
		grace := in.template.Spec.TerminationGracePeriodSeconds
		if grace == nil || *grace < drain+reserve {
			t.Errorf("terminationGracePeriodSeconds is below the %d s that stopping may take", drain+reserve)
		}
	})
}
