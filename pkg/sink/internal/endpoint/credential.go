package endpoint

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// credentialAge is how long a credential is used before its file is read again.
const credentialAge = time.Second

// validateAuth checks that there is one credential, which HTTP can carry. of names the sink
// type, as in "a webhook".
func validateAuth(of string, a connection.Auth) []sink.Problem {
	problems := a.Validate(of, connection.Username, connection.Password, connection.PasswordFile, connection.Token, connection.TokenFile)
	if strings.ContainsRune(a.Username, ':') || strings.ContainsFunc(a.Username, badInValue) {
		problems = append(problems, sink.Problem{Key: "auth.username", Message: "must not have a colon or a control character"})
	}
	return problems
}

// Credential is the value of the Authorization header. The content of its file may change. Its
// methods may be called concurrently.
type Credential struct {
	auth connection.Auth

	mu    sync.Mutex
	value string
	read  time.Time // when the value was read; zero: read it again
}

// NewCredential makes the credential of the keys. It reads no file.
func NewCredential(auth connection.Auth) *Credential { return &Credential{auth: auth} }

// Header returns the value, "" without a credential. It reads the file again after a second. Its
// errors do not show the secret.
func (c *Credential) Header() (string, error) {
	if !c.auth.Wanted() {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() && time.Since(c.read) < credentialAge {
		return c.value, nil
	}
	value, err := authorization(c.auth)
	if err != nil {
		return "", err
	}
	c.value, c.read = value, time.Now()
	return value, nil
}

// Refused notes that the endpoint has refused the credential: the file may have
// a new one.
func (c *Credential) Refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = time.Time{}
}

// authorization returns the value for a credential. Its errors do not show the secret.
func authorization(a connection.Auth) (string, error) {
	if !a.HasToken() {
		password, err := a.ReadPassword()
		if err != nil {
			return "", err
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.Username+":"+password)), nil
	}
	token, err := a.ReadToken()
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		where := "token"
		if a.TokenFile != "" {
			where = "tokenFile " + a.TokenFile
		}
		return "", fmt.Errorf("read auth.%s: a token has no white space and only ASCII characters", where)
	}
	return "Bearer " + token, nil
}
