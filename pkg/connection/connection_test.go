package connection_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

const canary = "canary-91b7"

func problems(all []sink.Problem) []string {
	var lines []string
	for _, p := range all {
		lines = append(lines, p.Key+": "+p.Message)
	}
	return lines
}

func TestServers(t *testing.T) {
	const example = "one:1, two:2"
	for name, tt := range map[string]struct {
		servers connection.Servers
		want    []string
	}{
		"none":        {nil, []string{"servers: is required: the addresses of the servers, as in [one:1, two:2]"}},
		"one":         {connection.NewServers("a:1"), nil},
		"white space": {connection.NewServers(" a:1\n"), nil},
		"wrong":       {connection.NewServers("bad" + canary), []string{"servers: is wrong"}},
		"wrong ones":  {connection.NewServers("a:1", "bad", ""), []string{"servers[1]: is wrong", "servers[2]: is empty: write the address of a server, as in [one:1, two:2]"}},
		"comma":       {connection.NewServers("a:1,b:" + canary), []string{"servers: has a comma: several servers are a list, as in [one:1, two:2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.servers.Validate(example, func(address string) string {
				if strings.HasPrefix(address, "bad") {
					return "is wrong"
				}
				return ""
			})
			if diff := cmp.Diff(tt.want, problems(got)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if shown := fmt.Sprintf("%v %+v %#v", tt.servers, tt.servers, tt.servers); strings.Contains(shown, canary) {
				t.Errorf("an address shows: %s", shown)
			}
		})
	}
}

func TestAuth(t *testing.T) {
	secret := sink.NewSecret(canary)
	for name, tt := range map[string]struct {
		auth connection.Auth
		want []string
	}{
		"none":          {connection.Auth{}, nil},
		"password":      {connection.Auth{Username: "u", Password: secret}, nil},
		"password file": {connection.Auth{Username: "u", PasswordFile: "f"}, nil},
		"token":         {connection.Auth{Token: secret}, nil},
		"not taken": {connection.Auth{CredsFile: "c", Mechanism: "plain"}, []string{
			"auth.credsFile: TEST does not take this key: it takes username, password, passwordFile, token, tokenFile and nkeyFile",
			"auth.mechanism: TEST does not take this key: it takes username, password, passwordFile, token, tokenFile and nkeyFile",
		}},
		"two ways":      {connection.Auth{Username: "u", Password: secret, TokenFile: "t", NkeyFile: "n"}, []string{"auth: username with a password, token and nkeyFile exclude each other; keep one"}},
		"two passwords": {connection.Auth{Username: "u", Password: secret, PasswordFile: "f"}, []string{"auth: password and passwordFile exclude each other; keep one"}},
		"two tokens":    {connection.Auth{Token: secret, TokenFile: "f"}, []string{"auth: token and tokenFile exclude each other; keep one"}},
		"no user":       {connection.Auth{PasswordFile: "f"}, []string{"auth: a password needs a username: set username"}},
		"no password":   {connection.Auth{Username: "u"}, []string{"auth: username needs a password: set passwordFile or password"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.auth.Validate("TEST", connection.Username, connection.Password, connection.PasswordFile,
				connection.Token, connection.TokenFile, connection.NkeyFile)
			if diff := cmp.Diff(tt.want, problems(got)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if shown := fmt.Sprintf("%v %+v %#v", tt.auth, tt.auth, &tt.auth); strings.Contains(shown, canary) {
				t.Errorf("a secret shows: %s", shown)
			}
			if tt.auth.Wanted() == (name == "none") {
				t.Errorf("wanted: %t", tt.auth.Wanted())
			}
		})
	}
}

// TestSecretFiles: what is in the file now counts, without its line end.
func TestSecretFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	a := connection.Auth{PasswordFile: file, TokenFile: file}
	for content, want := range map[string]string{
		"first\n":                    "first",
		"second\r\n":                 "second",
		" spaces stay ":              " spaces stay ",
		"\n":                         "",
		strings.Repeat(canary, 2000): "",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for key, read := range map[string]func() (string, error){"auth.passwordFile": a.ReadPassword, "auth.tokenFile": a.ReadToken} {
			got, err := read()
			if got != want || (err != nil) != (want == "") {
				t.Errorf("%s: %q, %v, want %q", key, got, err, want)
			}
			if err != nil && (!strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), canary)) {
				t.Errorf("the error is %q, want the key and the file, and no content", err)
			}
		}
	}
	if password, err := (connection.Auth{Password: sink.NewSecret("p")}).ReadPassword(); password != "p" || err != nil {
		t.Errorf("a password without a file: %q, %v", password, err)
	}
}

// TestTLS: enabled: false with files is an error, and turns nothing on.
func TestTLS(t *testing.T) {
	for name, tt := range map[string]struct {
		tls    connection.TLS
		wanted bool
		want   []string
	}{
		"none":           {connection.TLS{}, false, nil},
		"on":             {connection.TLS{Enabled: new(true)}, true, nil},
		"off":            {connection.TLS{Enabled: new(false)}, false, nil},
		"a file":         {connection.TLS{CAFile: "ca"}, true, nil},
		"off and a file": {connection.TLS{Enabled: new(false), CAFile: "ca"}, false, []string{"tls.enabled: is false, but other keys of tls are set: set it to true, or remove the other keys"}},
		"half a pair":    {connection.TLS{CertFile: "c"}, true, []string{"tls: certFile and keyFile go together; set both or none"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, problems(tt.tls.Validate())); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if got := tt.tls.Wanted(); got != tt.wanted {
				t.Errorf("wanted: %t", got)
			}
		})
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "127.0.0.1.example.com": false, "10.0.0.1": false, "": false} {
		if got := connection.Loopback(host); got != want {
			t.Errorf("Loopback(%q) = %t", host, got)
		}
	}
}
