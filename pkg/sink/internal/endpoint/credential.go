package endpoint

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// validateAuth checks that there is one credential, which HTTP can carry. of names the sink
// type, as in "a webhook".
func validateAuth(of string, a connection.Auth) []sink.Problem {
	problems := sink.Problems(a.Validate(of, connection.Username, connection.Password, connection.PasswordFile,
		connection.Token, connection.TokenFile))
	if strings.ContainsRune(a.Username, ':') || strings.ContainsFunc(a.Username, badInValue) {
		problems.Add("auth.username", "must not have a colon or a control character")
	}
	return problems
}

// authorization reads the value of the Authorization header, "" without a credential. Its errors do not show
// the secret.
func authorization(a connection.Auth) (string, error) {
	if !a.Wanted() {
		return "", nil
	}
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
