package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/informd/informd/pkg/event"
)

const (
	secretPrefix             = "whsec_"
	minSecret, maxSecret     = 24, 64 // bytes, by Standard Webhooks
	maxID                    = 200    // longer ids are hashed: endpoints keep them in database columns
	hashedPrefix, manyPrefix = "h-", "b-"
)

// signer signs requests with the keys in a file. Its methods may be called
// concurrently.
type signer struct{ file string }

// secrets reads the file. Without a file there are no keys, and no error.
func (s signer) secrets() ([][]byte, error) {
	if s.file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(s.file)
	if err != nil {
		return nil, fmt.Errorf("read signing.keyFile: %w", err)
	}
	var secrets [][]byte
	number := 0
	for line := range bytes.Lines(content) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		secret, err := parseSecret(line)
		if err != nil {
			return nil, fmt.Errorf("read signing.keyFile %s: line %d: %w", s.file, number, err)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("read signing.keyFile %s: the file has no key", s.file)
	}
	return secrets, nil
}

// parseSecret returns the key of a line. Its errors do not show the line.
func parseSecret(line []byte) ([]byte, error) {
	encoded, ok := bytes.CutPrefix(line, []byte(secretPrefix))
	if !ok {
		return nil, fmt.Errorf("a signing key begins with %s", secretPrefix)
	}
	secret, err := base64.StdEncoding.DecodeString(string(encoded))
	if err != nil {
		return nil, errors.New("the text after " + secretPrefix + " is not base64")
	}
	if len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fmt.Errorf("a signing key has %d to %d bytes, this one has %d", minSecret, maxSecret, len(secret))
	}
	return secret, nil
}

// signature returns the value of webhook-signature: one signature for every
// key.
func signature(secrets [][]byte, id, timestamp string, body []byte) string {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// messageID returns the webhook-id of a request: always the same for the same
// events.
func messageID(events []event.Event) string {
	if id := events[0].ID; len(events) == 1 && plainID(id) {
		return id
	}
	prefix := hashedPrefix
	if len(events) > 1 {
		prefix = manyPrefix
	}
	var all []byte
	for i := range events {
		// Clusters have control records with the same ids. The length in front:
		// no two lists look the same.
		source, id := events[i].Source(), events[i].ID
		all = fmt.Appendf(all, "%d:%s%d:%s", len(source), source, len(id), id)
	}
	sum := sha256.Sum256(all)
	return prefix + hex.EncodeToString(sum[:16])
}

func plainID(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool {
		alphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !alphanumeric && r != ':' && r != '_' && r != '-'
	})
}
