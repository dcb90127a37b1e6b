package chaos

import (
	"bytes"
	"encoding/base64"
)

// canary begins the value of every Secret of the workload. Its length is a
// multiple of 3, so that its base64 form is the same whatever follows.
const canary = "CANARY-of-a-secret-value-"

// holdsCanary reports whether the bytes hold a Secret's value, as it is or in base64: as
// the API writes it, or anywhere in a longer text.
func holdsCanary(raw []byte) bool {
	if bytes.Contains(raw, []byte(canary[:24])) {
		return true
	}
	for before := range 3 {
		text := canary[(3-before)%3:] // begins a group of three bytes
		text = text[:len(text)/3*3]
		if bytes.Contains(raw, []byte(base64.StdEncoding.EncodeToString([]byte(text)))) {
			return true
		}
	}
	return false
}
