package deploy_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/informd/informd/pkg/sink/nats"
)

// documentedSecrets are the Secrets that deploy/README.md tells users to make: name,
// then key. Shell variables in the values stay as they are.
func documentedSecrets(t *testing.T) map[string]map[string]string {
	t.Helper()
	command := regexp.MustCompile(`(?m)^kubectl -n informd create secret generic (\S+) (.*)$`)
	literal := regexp.MustCompile(`--from-literal=(\w+)="([^"]*)"`)
	file := regexp.MustCompile(`--from-file=(\S+)`)
	secrets := make(map[string]map[string]string)
	for _, found := range command.FindAllStringSubmatch(string(read(t, "deploy/README.md")), -1) {
		secrets[found[1]] = make(map[string]string)
		for _, pair := range literal.FindAllStringSubmatch(found[2], -1) {
			secrets[found[1]][pair[1]] = pair[2]
		}
		for _, name := range file.FindAllStringSubmatch(found[2], -1) {
			secrets[found[1]][name[1]] = "a file"
		}
	}
	return secrets
}

// A pod that waits for a Secret, or for a key in it, that the README forgets waits
// for ever.
func TestSecretsAreDocumented(t *testing.T) {
	secrets := documentedSecrets(t)
	eachKustomization(t, func(t *testing.T, r release) {
		for _, w := range workloads(r) {
			for _, v := range w.template.Spec.Volumes {
				if v.Secret != nil && len(secrets[v.Secret.SecretName]) == 0 {
					t.Errorf("%s: deploy/README.md makes no Secret %s", w.name, v.Secret.SecretName)
				}
			}
			for _, c := range w.containers() {
				for _, e := range c.Env {
					if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
						continue
					}
					ref := e.ValueFrom.SecretKeyRef
					if secrets[ref.Name][ref.Key] == "" {
						t.Errorf("%s/%s: deploy/README.md makes no key %s in a Secret %s", w.name, c.Name, ref.Key, ref.Name)
					}
				}
			}
		}
	})
}

// The server of the NATS overlay refuses clients without a password, has both from
// its environment, and knows the user that informd logs in as.
func TestNATSHasUsers(t *testing.T) {
	r := built(t, root+"/deploy/kustomize/overlays/nats")
	var conf string
	for _, c := range of[*corev1.ConfigMap](r) {
		if strings.HasPrefix(c.Name, "nats-config-") {
			conf = c.Data["nats.conf"]
		}
	}
	var users []string
	var variables []string
	for _, found := range regexp.MustCompile(`\{user: (\w+), password: \$(\w+)`).FindAllStringSubmatch(conf, -1) {
		users, variables = append(users, found[1]), append(variables, found[2])
	}
	if all := strings.Count(conf, "user: "); len(users) != 2 || all != 2 {
		t.Fatalf("%d users, %d of them with a password from a variable, want 2", all, len(users))
	}
	var set []string
	for _, w := range workloads(r) {
		for _, c := range w.containers() {
			for _, e := range c.Env {
				if w.name == "nats" && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					set = append(set, e.Name)
				}
			}
		}
	}
	for _, name := range variables {
		if !slices.Contains(set, name) {
			t.Errorf("nats.conf reads $%s, which the container does not have", name)
		}
	}
	passwords := slices.Sorted(maps.Keys(documentedSecrets(t)["nats-passwords"]))
	if slices.Sort(users); !slices.Equal(users, passwords) {
		t.Errorf("users %q, but passwords of %q", users, passwords)
	}
	for _, s := range parsed(t, r).Sinks {
		options, ok := s.Options.(*nats.Config)
		if !ok || len(options.Servers.Reveal()) != 1 || !strings.HasPrefix(options.Servers.Reveal()[0], "nats://"+users[0]+":$publish@") {
			t.Errorf("informd does not log in as %s: %+v", users[0], options)
		}
	}
}
