package endpoint

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/connection"
)

// TestCredentialIsReadAgain: a change of the file shows after a second, and at once
// if the endpoint has refused what was read before.
func TestCredentialIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	put := func(token string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := NewCredential(connection.Auth{TokenFile: path})
		want := func(token string) {
			t.Helper()
			if got, err := c.Header(); got != "Bearer "+token || err != nil {
				t.Fatalf("header %q, %v, want the token %s", got, err, token)
			}
		}
		put("first\n")
		want("first")
		put("second\r\n")
		want("first")
		<-time.After(credentialAge)
		want("second")
		put("third")
		c.Refused()
		want("third")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		want("third")
		<-time.After(credentialAge)
		if got, err := c.Header(); err == nil {
			t.Errorf("header %q without a file", got)
		}
		put("fourth")
		want("fourth")
	})
}
