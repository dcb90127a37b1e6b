package configfile_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
)

// TestLoadAdmin: who asks a running informd is not kept from it by a config that has
// mistakes, or by none, as long as it is known where to ask.
func TestLoadAdmin(t *testing.T) {
	const hint = "\ninformd: --server ADDRESS needs no config"
	for name, test := range map[string]struct {
		body   string // "" is no file
		listen string // "" is no flag
		socket string // "" is no flag
		want   config.Admin
		fails  string
	}{
		"mistakes elsewhere": {
			body: "resorces: []\nadmin: {listen: '127.0.0.1:1'}\nlog: {level: loud}\n",
			want: config.Admin{Listen: "127.0.0.1:1", Socket: "/var/lib/informd/admin.sock"},
		},
		"the default": {body: "resources: 1\n", want: config.Admin{Listen: "127.0.0.1:8080", Socket: "/var/lib/informd/admin.sock"}},
		"TLS goes with the flag": {
			body: "a: b\nadmin: {listen: 'a:1', tls: {certFile: c, keyFile: k}}\n", listen: "b:2",
			want: config.Admin{Listen: "b:2", Socket: "/var/lib/informd/admin.sock", TLS: config.AdminTLS{CertFile: "c", KeyFile: "k"}},
		},
		"beside the journal": {
			body: "journal: {dir: /j, maxBytes: much}\nadmin: {listen: '127.0.0.1:1'}\n",
			want: config.Admin{Listen: "127.0.0.1:1", Socket: "/j/admin.sock"},
		},
		"a socket": {
			body: "journal: {dir: /j}\nadmin: {socket: /run/informd.sock}\n",
			want: config.Admin{Listen: "127.0.0.1:8080", Socket: "/run/informd.sock"},
		},
		"no socket":         {body: "admin: {socket: ''}\n", want: config.Admin{Listen: "127.0.0.1:8080"}},
		"no file, a socket": {socket: "/s", want: config.Admin{Listen: "127.0.0.1:8080", Socket: "/s"}},
		"a token in clear": {
			body:  "admin: {listen: ':1', tokenFile: /t}\n",
			fails: `config.yaml:1:34: admin.tokenFile: would cross the network without TLS, as admin.listen ":1" serves other machines, too`,
		},
		"a token on this machine": {
			body: "admin: {socket: '', tokenFile: /t}\n",
			want: config.Admin{Listen: "127.0.0.1:8080", TokenFile: "/t"},
		},
		"no YAML":          {body: "a: [\n", fails: "config.yaml:"},
		"no file":          {fails: "there is no such file" + hint},
		"no YAML, a flag":  {body: "a: [\n", listen: "b:2", want: config.Admin{Listen: "b:2", Socket: "/var/lib/informd/admin.sock"}},
		"no file, a flag":  {listen: "b:2", want: config.Admin{Listen: "b:2", Socket: "/var/lib/informd/admin.sock"}},
		"a bad flag":       {listen: "b", fails: "--admin-listen: admin.listen: "},
		"a mistake in it":  {body: "admin: {lisen: x}\n", fails: `config.yaml:1:9: admin.lisen: unknown key (did you mean "listen"?)`},
		"half of TLS":      {body: "admin: {tls: {certFile: c}}\n", fails: "certFile and keyFile go together"},
		"not even a table": {body: "- a\n", fails: hint},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if test.body != "" {
				write(t, path, test.body)
			}
			args := []string{"-c", path}
			if test.listen != "" {
				args = append(args, "--admin-listen", test.listen)
			}
			if test.socket != "" {
				args = append(args, "--admin-socket", test.socket)
			}
			got, err := configfile.LoadAdmin(given(t, args...))
			if (err != nil) != (test.fails != "") || !strings.Contains(text(err), test.fails) {
				t.Fatalf("error %v, want %q", err, test.fails)
			}
			if diff := cmp.Diff(test.want, got); err == nil && diff != "" {
				t.Errorf("admin (-want +got):\n%s", diff)
			}
		})
	}
}
