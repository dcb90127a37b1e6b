package webhook

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// credentialAge is how long a credential counts before its file is read again.
	credentialAge = time.Second
	// maxCredential is how many bytes such a file may have: servers take no longer
	// headers.
	maxCredential = 16 << 10
)

// Auth is how requests say who sends them. At most one of the two ways is set.
type Auth struct {
	// BearerTokenFile has a token, with or without a line end behind it.
	BearerTokenFile string `yaml:"bearerTokenFile"`
	Basic           Basic  `yaml:"basic"`
}

// Basic is HTTP basic authentication.
type Basic struct {
	// User is the name.
	User string `yaml:"user"`
	// PasswordFile has the password, with or without a line end behind it.
	PasswordFile string `yaml:"passwordFile"`
}

func (a Auth) wanted() bool { return a != Auth{} }

// validateAuth checks that there is one credential.
func (c *Config) validateAuth(add func(key, format string, args ...any)) {
	a := c.Auth
	switch {
	case !a.wanted():
	case a.BearerTokenFile != "" && a.Basic != Basic{}:
		add("auth", "bearerTokenFile and basic exclude each other; keep one")
	case a.Basic != Basic{} && (a.Basic.User == "" || a.Basic.PasswordFile == ""):
		add("auth.basic", "user and passwordFile go together; set both or none")
	case strings.ContainsRune(a.Basic.User, ':') || strings.ContainsFunc(a.Basic.User, badInValue):
		add("auth.basic.user", "must not have a colon or a control character")
	case c.urlHasUser():
		add("auth", "url has a user already; keep one")
	}
}

// credential is the value of the Authorization header. Its file may rotate. Its
// methods may be called concurrently.
type credential struct {
	auth Auth

	mu    sync.Mutex
	value string
	read  time.Time // when the value was read; zero: it has to be
}

// header returns the value, "" if there is none. It reads the file again if that
// was longer ago than credentialAge.
func (c *credential) header() (string, error) {
	if !c.auth.wanted() {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() && time.Since(c.read) < credentialAge {
		return c.value, nil
	}
	value, err := c.auth.load()
	if err != nil {
		return "", err
	}
	c.value, c.read = value, time.Now()
	return value, nil
}

// refused says that the endpoint has refused the credential: the file may have
// another one.
func (c *credential) refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = time.Time{}
}

// load reads the value from its file. Its errors do not show what is in there.
func (a Auth) load() (string, error) {
	if a.BearerTokenFile == "" {
		password, err := readCredential("auth.basic.passwordFile", a.Basic.PasswordFile)
		if err != nil {
			return "", err
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.Basic.User+":"+password)), nil
	}
	token, err := readCredential("auth.bearerTokenFile", a.BearerTokenFile)
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("read auth.bearerTokenFile %s: a token has no white space and only ASCII characters", a.BearerTokenFile)
	}
	return "Bearer " + token, nil
}

// readCredential reads one line.
func readCredential(key, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxCredential+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	content = bytes.TrimSuffix(bytes.TrimSuffix(content, []byte{'\n'}), []byte{'\r'})
	switch {
	case len(content) == 0:
		return "", fmt.Errorf("read %s %s: it is empty", key, path)
	case len(content) > maxCredential:
		return "", fmt.Errorf("read %s %s: it has more than %d bytes", key, path, maxCredential)
	}
	return string(content), nil
}
