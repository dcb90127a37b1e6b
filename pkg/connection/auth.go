package connection

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/sink"
)

// The keys of [Auth].
const (
	Username     = "username"
	Password     = "password"
	PasswordFile = "passwordFile"
	Token        = "token"
	TokenFile    = "tokenFile"
	CredsFile    = "credsFile"
	NkeyFile     = "nkeyFile"
	Mechanism    = "mechanism"
)

// maxSecret is how many bytes a password or token may have: servers take no longer ones.
const maxSecret = 16 << 10

// Auth is how informd logs in: with a user name and password, a token, NATS credentials or
// an nkey. Each type takes some of the keys.
type Auth struct {
	// Username is the user name, for Password or PasswordFile.
	Username string `yaml:"username"`
	// Password is the password, or "${env:NAME}" for an environment variable.
	Password sink.Secret `yaml:"password"`
	// PasswordFile holds the password on one line. A new content is used without a restart.
	PasswordFile string `yaml:"passwordFile"`
	// Token is the token, or "${env:NAME}" for an environment variable.
	Token sink.Secret `yaml:"token"`
	// TokenFile holds the token on one line. A new content is used without a restart.
	TokenFile string `yaml:"tokenFile"`
	// CredsFile holds NATS credentials: a JWT and its key. A new content is used without a restart.
	CredsFile string `yaml:"credsFile"`
	// NkeyFile holds the seed of a NATS nkey. A new content is used without a restart.
	NkeyFile string `yaml:"nkeyFile"`
	// Mechanism is the SASL mechanism of Kafka: plain, scram-sha-256, scram-sha-512 or
	// oauthbearer.
	Mechanism string `yaml:"mechanism"`
}

// Wanted reports whether any key is set.
func (a Auth) Wanted() bool { return a != Auth{} }

// HasPassword reports whether there is a password, or a file for it.
func (a Auth) HasPassword() bool { return a.Password != sink.Secret{} || a.PasswordFile != "" }

// HasToken reports whether there is a token, or a file for it.
func (a Auth) HasToken() bool { return a.Token != sink.Secret{} || a.TokenFile != "" }

// set lists the keys that are set.
func (a Auth) set() []string {
	var keys []string
	for _, one := range []struct {
		key string
		set bool
	}{
		{Username, a.Username != ""},
		{Password, a.Password != sink.Secret{}},
		{PasswordFile, a.PasswordFile != ""},
		{Token, a.Token != sink.Secret{}},
		{TokenFile, a.TokenFile != ""},
		{CredsFile, a.CredsFile != ""},
		{NkeyFile, a.NkeyFile != ""},
		{Mechanism, a.Mechanism != ""},
	} {
		if one.set {
			keys = append(keys, one.key)
		}
	}
	return keys
}

// Validate returns what is wrong with the keys for a server that takes some of them: of
// names it ("NATS"), takes are its keys.
func (a Auth) Validate(of string, takes ...string) []sink.Problem {
	var problems sink.Problems
	for _, key := range a.set() {
		if !slices.Contains(takes, key) {
			problems.Add("auth."+key, "%s does not take this key: it takes %s", of, list(takes))
		}
	}
	if problems != nil {
		return problems
	}
	message := ""
	switch ways := a.ways(); {
	case len(ways) > 1:
		message = list(ways) + " exclude each other; keep one"
	case a.Password != sink.Secret{} && a.PasswordFile != "":
		message = "password and passwordFile exclude each other; keep one"
	case a.Token != sink.Secret{} && a.TokenFile != "":
		message = "token and tokenFile exclude each other; keep one"
	case a.Username == "" && a.HasPassword():
		message = "a password needs a username: set username"
	case a.Username != "" && !a.HasPassword():
		message = "username needs a password: set passwordFile or password"
	default:
		return nil
	}
	return []sink.Problem{{Key: "auth", Message: message}}
}

// ways lists the ways to log in that are set.
func (a Auth) ways() []string {
	var ways []string
	if a.Username != "" || a.HasPassword() {
		ways = append(ways, "username with a password")
	}
	if a.HasToken() {
		ways = append(ways, "token")
	}
	for _, key := range []string{CredsFile, NkeyFile} {
		if slices.Contains(a.set(), key) {
			ways = append(ways, key)
		}
	}
	return ways
}

// list joins words as a sentence has them.
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " and " + words[n]
}

// ReadPassword returns the password, which it reads from the file if there is one.
func (a Auth) ReadPassword() (string, error) {
	if a.PasswordFile == "" {
		return a.Password.Reveal(), nil
	}
	return readSecret(PasswordFile, a.PasswordFile)
}

// ReadToken returns the token, which it reads from the file if there is one.
func (a Auth) ReadToken() (string, error) {
	if a.TokenFile == "" {
		return a.Token.Reveal(), nil
	}
	return readSecret(TokenFile, a.TokenFile)
}

// readSecret reads a file with one secret, and cuts the line end off. Its errors do not
// show the secret.
func readSecret(key, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read auth.%s: %w", key, err)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read auth.%s: %w", key, err)
	}
	content = bytes.TrimRight(content, "\r\n")
	switch {
	case len(content) == 0:
		return "", fmt.Errorf("read auth.%s %s: the file is empty", key, path)
	case len(content) > maxSecret:
		return "", fmt.Errorf("read auth.%s %s: the file has more than %d bytes", key, path, maxSecret)
	}
	return string(content), nil
}
