package deploy_test

import (
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
)

// informd is the one informd container of a deployment, with the config that
// its arguments lead to.
type informd struct {
	workload  workload
	container corev1.Container
	config    *config.Config
	// sinks are the sinks' own options that the deployment has to fit.
	sinks []sinkOptions
}

type sinkOptions struct {
	Type    string   `json:"type"`
	Path    string   `json:"path"`
	Servers []string `json:"servers"`
}

// runsInformd reports whether a container has the image of informd.
func runsInformd(c corev1.Container) bool {
	return strings.HasPrefix(c.Image, "ghcr.io/informd/informd:")
}

// informdOf finds informd and decodes its config as the program would.
func informdOf(t *testing.T, d deployment) informd {
	t.Helper()
	var found []informd
	for _, w := range workloads(d) {
		for _, c := range containers(w.pod) {
			if runsInformd(c) {
				found = append(found, informd{workload: w, container: c})
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d containers run informd, not 1", len(found))
	}
	in := found[0]
	file := configFile(t, in.container)
	text := configText(t, d, in, file)
	for _, from := range in.container.EnvFrom {
		for name, value := range documentedSecrets(t)[from.SecretRef.Name] {
			t.Setenv(name, value)
		}
	}
	for _, e := range in.container.Env {
		if e.ValueFrom != nil {
			continue
		}
		t.Setenv(e.Name, strings.ReplaceAll(e.Value, "$(POD_NAME)", in.workload.name+"-0"))
	}
	local := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(local, text, 0o600))
	parsed, err := configfile.Load(configfile.Source{Path: local, Drivers: drivers.All()})
	if err != nil {
		t.Fatalf("config:\n%v", err)
	}
	in.config = parsed
	var options struct {
		Sinks []sinkOptions `json:"sinks"`
	}
	must(t, yaml.Unmarshal(text, &options))
	in.sinks = options.Sinks
	for i := range in.sinks {
		for j, server := range in.sinks[i].Servers {
			in.sinks[i].Servers[j] = os.Expand(server, func(reference string) string {
				return os.Getenv(strings.TrimPrefix(reference, "env:"))
			})
		}
	}
	return in
}

// configFile is the argument of --config.
func configFile(t *testing.T, c corev1.Container) string {
	t.Helper()
	i := slices.Index(c.Args, "--config")
	if i < 0 || i+1 >= len(c.Args) {
		t.Fatalf("container %s: args %q have no --config", c.Name, c.Args)
	}
	return c.Args[i+1]
}

// configText is what the container finds in that file.
func configText(t *testing.T, d deployment, in informd, file string) []byte {
	t.Helper()
	mount := mountOf(in.container, file)
	for _, v := range in.workload.pod.Volumes {
		if v.Name == mount.Name && v.ConfigMap != nil {
			if text, ok := d.configMap(v.ConfigMap.Name)[strings.TrimPrefix(file, mount.MountPath+"/")]; ok {
				return []byte(text)
			}
		}
	}
	t.Fatalf("container %s: no config map is mounted at %s", in.container.Name, file)
	return nil
}

// mountOf is the volume mount that a file lies in, zero if it is in none.
func mountOf(c corev1.Container, file string) corev1.VolumeMount {
	for _, m := range c.VolumeMounts {
		if strings.HasPrefix(file, m.MountPath+"/") {
			return m
		}
	}
	return corev1.VolumeMount{}
}

// With a read-only root, informd can write where a volume is and nowhere else.
func TestDirectoriesAreWritable(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		in := informdOf(t, d)
		directories := []string{in.config.Journal.Dir}
		for _, s := range in.sinks {
			if s.Path != "" {
				directories = append(directories, path.Dir(s.Path))
			}
		}
		for _, dir := range directories {
			if m := mountOf(in.container, dir+"/x"); m.Name == "" || m.ReadOnly {
				t.Errorf("%s is on no writable volume", dir)
			}
		}
	})
}

// People do not read a warning that every config gives.
func TestConfigsGiveNoWarning(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		for _, w := range informdOf(t, d).config.Warnings {
			t.Error(w)
		}
	})
}

// The probes, the container's port and admin.listen are one thing in three places.
func TestProbesReachTheAdminServer(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		in := informdOf(t, d)
		host, port, err := net.SplitHostPort(in.config.Admin.Listen)
		must(t, err)
		if host != "" {
			t.Errorf("admin.listen %s: the kubelet does not reach it", in.config.Admin.Listen)
		}
		if in.container.LivenessProbe == nil {
			t.Fatal("no liveness probe")
		}
		for want, probe := range map[string]*corev1.Probe{
			"/healthz": in.container.LivenessProbe,
			"/readyz":  in.container.ReadinessProbe,
		} {
			if probe == nil {
				continue
			}
			number, ok := namedPort(in.workload.pod, probe.HTTPGet.Port.StrVal)
			if !ok || strconv.Itoa(int(number)) != port || probe.HTTPGet.Path != want {
				t.Errorf("probe asks %s on port %s, admin.listen is %s", probe.HTTPGet.Path, probe.HTTPGet.Port.String(), in.config.Admin.Listen)
			}
		}
	})
}

// A service that leads to a closed port is found out at the first scrape, or never.
func TestServicePortsAreOpen(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		for _, s := range find[*corev1.Service](d) {
			for _, w := range workloads(d) {
				if !selects(s.Spec.Selector, w.labels) {
					continue
				}
				for _, p := range s.Spec.Ports {
					if number, _ := namedPort(w.pod, p.TargetPort.StrVal); !slices.Contains(ingressPorts(d, w), number) {
						t.Errorf("service %s: port %s: the network policy closes %d", s.Name, p.Name, number)
					}
				}
			}
		}
	})
}

// The servers of a sink are behind open ports. One without a domain is a service of the deployment.
func TestSinksAreReachable(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		in := informdOf(t, d)
		for _, s := range in.sinks {
			for _, server := range s.Servers {
				checkReachable(t, d, in.workload, server)
			}
		}
	})
}

func checkReachable(t *testing.T, d deployment, from workload, sinkURL string) {
	t.Helper()
	u, err := url.Parse(sinkURL)
	must(t, err)
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	must(t, err)
	if !slices.Contains(egressPorts(d, from), int32(port)) {
		t.Errorf("sink server %s: the network policy lets nothing out to port %d", sinkURL, port)
	}
	if strings.Contains(u.Hostname(), ".") {
		return // in another namespace
	}
	services := find[*corev1.Service](d)
	i := slices.IndexFunc(services, func(s *corev1.Service) bool { return s.Name == u.Hostname() })
	if i < 0 {
		t.Fatalf("sink url %s: there is no service %s", sinkURL, u.Hostname())
	}
	if !slices.ContainsFunc(services[i].Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == int32(port) }) {
		t.Errorf("sink url %s: service %s has no port %d", sinkURL, services[i].Name, port)
	}
}

// The kubelet must not kill informd while it still drains.
func TestGracePeriodOutlastsTheDrain(t *testing.T) {
	const drain, reserve = 15, 5 // seconds; drain is the daemon's grace
	eachKustomization(t, func(t *testing.T, d deployment) {
		grace := informdOf(t, d).workload.pod.TerminationGracePeriodSeconds
		if grace == nil || *grace < drain+reserve {
			t.Errorf("terminationGracePeriodSeconds is below the %d s that stopping may take", drain+reserve)
		}
	})
}
