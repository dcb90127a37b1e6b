package configfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink"
)

const minimal = "resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\n"

// given is the given command line, with the fake drivers.
func given(t *testing.T, args ...string) configfile.Source {
	t.Helper()
	flags := pflag.NewFlagSet("informd", pflag.ContinueOnError)
	configfile.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatalf("parse flags: %v", err)
	}
	return configfile.Source{Flags: flags, Drivers: fakeDrivers()}
}

func load(t *testing.T, args ...string) (*config.Config, error) {
	t.Helper()
	return configfile.Load(given(t, args...))
}

// mustLoad is load of a config that has no mistake.
func mustLoad(t *testing.T, args ...string) *config.Config {
	t.Helper()
	c, err := load(t, args...)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

// write writes a file and returns its path.
func write(t *testing.T, path, body string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// noVariables takes away what the environment of the test might say.
func noVariables(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "INFORMD_") {
			t.Setenv(name, value) // so that it comes back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	tests := map[string]struct {
		file string
		env  map[string]string
		args []string
		want string
	}{
		"default":                    {want: "info 127.0.0.1:8080"},
		"file":                       {file: "log: {level: warn}\nadmin: {listen: ':1'}\n", want: "warn :1"},
		"variable":                   {env: map[string]string{"INFORMD_LOG_LEVEL": "error", "INFORMD_ADMIN_LISTEN": ":2"}, want: "error :2"},
		"variable over file":         {file: "log: {level: warn}\n", env: map[string]string{"INFORMD_LOG_LEVEL": "error"}, want: "error 127.0.0.1:8080"},
		"empty variable":             {file: "log: {level: warn}\n", env: map[string]string{"INFORMD_LOG_LEVEL": ""}, want: "warn 127.0.0.1:8080"},
		"flag":                       {args: []string{"--log-level=debug", "--admin-listen=:3"}, want: "debug :3"},
		"flag over file":             {file: "log: {level: warn}\n", args: []string{"--log-level=debug"}, want: "debug 127.0.0.1:8080"},
		"flag over variable":         {env: map[string]string{"INFORMD_LOG_LEVEL": "error"}, args: []string{"--log-level=debug"}, want: "debug 127.0.0.1:8080"},
		"flag over both":             {file: "log: {level: warn}\n", env: map[string]string{"INFORMD_LOG_LEVEL": "error"}, args: []string{"--log-level=info"}, want: "info 127.0.0.1:8080"},
		"empty variable to turn off": {file: "admin: {listen: ':1'}\n", env: map[string]string{"INFORMD_ADMIN_LISTEN": ""}, want: "info "},
		"flag over empty variable":   {env: map[string]string{"INFORMD_ADMIN_LISTEN": ""}, args: []string{"--admin-listen=:3"}, want: "info :3"},
		"flag that sets to empty":    {file: "admin: {listen: ':1'}\n", args: []string{"--admin-listen="}, want: "info "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			noVariables(t)
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			path := write(t, filepath.Join(t.TempDir(), "c.yaml"), minimal+tt.file)
			c := mustLoad(t, append(tt.args, "-c", path)...)
			if got := c.Log.Level + " " + c.Admin.Listen; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if c.Path != path {
				t.Errorf("Path = %q, want %q", c.Path, path)
			}
		})
	}
}

// Every single value outside of the lists has a variable.
func TestVariables(t *testing.T) {
	noVariables(t)
	for name, value := range map[string]string{
		"INFORMD_CLUSTER":               "prod.eu",
		"INFORMD_KUBERNETES_KUBECONFIG": "/kube",
		"INFORMD_KUBERNETES_CONTEXT":    "Ctx::with.dots",
		"INFORMD_JOURNAL_TYPE":          "log",
		"INFORMD_REPLICAS_LEASE":        "l", "INFORMD_REPLICAS_NAMESPACE": "n", "INFORMD_REPLICAS_DURATION": "9s", "INFORMD_REPLICAS_ADDRESS": "h:1",
		"INFORMD_JOURNAL_DIR":        "/j",
		"INFORMD_JOURNAL_MAX_BYTES":  "2MiB",
		"INFORMD_REDACTION_KEY_FILE": "/key",
		"INFORMD_ADMIN_LISTEN":       "[::1]:9",
		"INFORMD_LOG_LEVEL":          "debug",
		"INFORMD_LOG_FORMAT":         "json",
		"INFORMD_PORT":               "tcp://10.0.0.1:80", // the kubelet's, for a Service
		"INFORMD_SERVICE_HOST":       "10.0.0.1",
	} {
		t.Setenv(name, value)
	}
	t.Setenv("INFORMD_CONFIG", write(t, filepath.Join(t.TempDir(), "c.yaml"), minimal))
	got := mustLoad(t)
	want := &config.Config{
		Path: got.Path, Resources: got.Resources, Sinks: got.Sinks,
		Cluster:    "prod.eu",
		Kubernetes: config.Kubernetes{Kubeconfig: "/kube", Context: "Ctx::with.dots", MaxWatches: 10_000, AuditEvery: time.Hour, MaxDelay: 50 * time.Millisecond},
		Journal:    journalOf("log", "/j", 2*sink.MiB),
		Redaction:  config.Redaction{KeyFile: "/key"},
		Admin:      config.Admin{Listen: "[::1]:9", Socket: "/j/admin.sock"},
		Replicas:   config.Replicas{Lease: "l", Namespace: "n", Duration: 9 * time.Second, Address: "h:1"},
		Log:        config.Log{Level: "debug", Format: "json"},
	}
	if diff := compare(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// A mistake in a flag or variable names it, along with the mistakes of the file.
func TestMistakesFromOutside(t *testing.T) {
	noVariables(t)
	t.Setenv("INFORMD_JOURNAL_MAX_BYTES", "much")
	t.Setenv("INFORMD_JOURNAL_TYPE", "memory")
	t.Setenv("INFORMD_JOURNAL_SYNC", "always")
	t.Setenv("INFORMD_CLUSTER", "two words")
	t.Setenv("INFORMD_LOG_LEVEL", "loud") // not what counts
	t.Setenv("INFORMD_LOG_FORMAT", "jsn")
	path := write(t, filepath.Join(t.TempDir(), "c.yaml"), minimal+"log: {level: debg}\n")
	_, err := load(t, "-c", path, "--log-level=inof", "--admin-listen=nowhere")
	want := `--admin-listen: admin.listen: "nowhere" is not host:port with a port of 0 to 65535, as in 127.0.0.1:8080 or :8080 (all addresses); "" turns it off
INFORMD_CLUSTER: cluster: "two words" is not a cluster name: up to 128 letters, digits, '.', '_' and '-', with a letter or digit at both ends
INFORMD_JOURNAL_MAX_BYTES: journal.maxBytes: "much" is not a size: a whole number and B, KiB, MiB, GiB or TiB, as in 100MiB
INFORMD_JOURNAL_SYNC: journal.sync: is a key of journals of type log, and this one is of type memory: remove the key, or set type
INFORMD_LOG_FORMAT: log.format: unknown value "jsn" (did you mean "json"?)
--log-level: log.level: unknown value "inof" (did you mean "info"?)
` + path + `:3:14: log.level: unknown value "debg" (did you mean "debug"?)`
	if diff := cmp.Diff(want, text(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// A variable heals what the file leaves out, and a broken file does not hide
// what is wrong with the variables.
func TestOutsideAndFileTogether(t *testing.T) {
	noVariables(t)
	t.Setenv("INFORMD_CLUSTER", "prod")
	path := filepath.Join(t.TempDir(), "c.yaml")
	write(t, path, "resources: [{resource: pods}]\nsinks: [{name: b, type: nats, servers: x}]\n")
	mustLoad(t, "-c", path)
	write(t, path, "resources: [\n")
	_, err := load(t, "-c", path, "--log-level=loud")
	var list config.Errors
	if !errors.As(err, &list) || len(list) != 2 || list[0].File != "--log-level" || list[1].File != path {
		t.Errorf("error = %v, want one about the flag and one about the file", err)
	}
}

func TestSearch(t *testing.T) {
	noVariables(t)
	dir := t.TempDir()
	t.Chdir(dir)
	one, other := write(t, filepath.Join(dir, "one.yaml"), minimal), write(t, filepath.Join(dir, "other.yaml"), minimal)
	write(t, filepath.Join(dir, "config.yaml"), minimal)

	if got := mustLoad(t).Path; got != "./config.yaml" {
		t.Errorf("without a name: read %q, want ./config.yaml", got)
	}
	t.Setenv("INFORMD_CONFIG", one)
	if got := mustLoad(t).Path; got != one {
		t.Errorf("INFORMD_CONFIG: read %q, want %q", got, one)
	}
	if got := mustLoad(t, "--config", other).Path; got != other {
		t.Errorf("--config: read %q, want %q", got, other)
	}
	c, err := configfile.Load(configfile.Source{Drivers: fakeDrivers()})
	if err != nil || c.Path != one {
		t.Errorf("without flags: %v, want %q read", err, one)
	}
}

func TestUnreadable(t *testing.T) {
	noVariables(t)
	dir := t.TempDir()
	t.Chdir(dir)
	secret := write(t, filepath.Join(dir, "secret.yaml"), minimal)
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	large := write(t, filepath.Join(dir, "large.yaml"), strings.Repeat("#", 10<<20))
	tests := map[string]struct {
		args []string
		want string
	}{
		"none":        {nil, "informd: no config file: there is neither ./config.yaml nor /etc/informd/config.yaml; name yours with --config or INFORMD_CONFIG"},
		"missing":     {[]string{"-c", "nowhere.yaml"}, "nowhere.yaml: there is no such file"},
		"a directory": {[]string{"-c", dir}, dir + ": is a directory: name the file in it"},
		"in a file":   {[]string{"-c", large + "/x"}, large + "/x: open " + large + "/x: not a directory"},
		"too large":   {[]string{"-c", large}, large + ":1:1: a config of more than 1048576 bytes"},
	}
	if os.Getuid() != 0 { // to root every file is readable
		tests["no permission"] = struct {
			args []string
			want string
		}{[]string{"-c", secret}, secret + ": no permission to read it"}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tt.args...)
			if _, ok := errors.AsType[config.Errors](err); !ok {
				t.Fatalf("error is a %T, want config.Errors", err)
			}
			if diff := cmp.Diff(tt.want, text(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// A variable that is called like one of a key, and is none, is warned of, with the
// nearest. Those that the kubelet makes for Services trouble nobody.
func TestStrayVariables(t *testing.T) {
	noVariables(t)
	for _, name := range []string{
		"INFORMD_SERVICE_HOST", "INFORMD_SERVICE_PORT", "INFORMD_SERVICE_PORT_HTTP", "INFORMD_PORT", "INFORMD_PORT_8080_TCP",
		"INFORMD_PORT_8080_TCP_PROTO", "INFORMD_PORT_8080_TCP_PORT", "INFORMD_PORT_8080_TCP_ADDR", "INFORMD_PORT_53_UDP",
		"INFORMD_ADMIN_SERVICE_HOST", "INFORMD_ADMIN_PORT_8080_TCP_ADDR", "INFORMD_TEST_CACHE", "INFORMDX", "INFORMD_MINE",
	} {
		t.Setenv(name, "10.0.0.1")
	}
	t.Setenv("INFORMD_LOG_LEVEL", "debug")
	t.Setenv("INFORMD_EMPTY", "")
	path := write(t, filepath.Join(t.TempDir(), "c.yaml"), minimal+"# ${env:INFORMD_MINE}\n")
	t.Setenv("INFORMD_CONFIG", path)
	if got := warnings(mustLoad(t)); got != "" {
		t.Errorf("warnings of what is in order:\n%s", got)
	}
	t.Setenv("INFORMD_LOGLEVEL", "debug")
	t.Setenv("INFORMD_JOURNAL_MAXBYTE", "1GiB")
	t.Setenv("INFORMD_WHATEVER_THIS_IS", "1")
	want := `INFORMD_JOURNAL_MAXBYTE: is the variable of no key, and has no effect (did you mean "INFORMD_JOURNAL_MAX_BYTES"?)
INFORMD_LOGLEVEL: is the variable of no key, and has no effect (did you mean "INFORMD_LOG_LEVEL"?)
INFORMD_WHATEVER_THIS_IS: is the variable of no key, and has no effect (it would be INFORMD_ and a key outside of resources and sinks, as in INFORMD_LOG_LEVEL)`
	if diff := cmp.Diff(want, warnings(mustLoad(t))); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// An empty variable turns off what "" turns off in the file, without a warning. Others warn.
func TestEmptyVariables(t *testing.T) {
	noVariables(t)
	for _, name := range []string{"INFORMD_ADMIN_LISTEN", "INFORMD_ADMIN_SOCKET", "INFORMD_CLUSTER", "INFORMD_JOURNAL_DIR"} {
		t.Setenv(name, "")
	}
	t.Setenv("INFORMD_CONFIG", write(t, filepath.Join(t.TempDir(), "c.yaml"), minimal+"admin: {listen: ':1', socket: /run/informd.sock}\n"))
	c := mustLoad(t)
	if c.Admin.Listen != "" || c.Admin.Socket != "" {
		t.Errorf("admin.listen %q and admin.socket %q, want neither", c.Admin.Listen, c.Admin.Socket)
	}
	want := `INFORMD_CLUSTER: is empty, and has no effect (remove it, or set a value)
INFORMD_JOURNAL_DIR: is empty, and has no effect (remove it, or set a value)`
	if diff := cmp.Diff(want, c.Warnings.Error()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
