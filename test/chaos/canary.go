package chaos

import (
	"bytes"
	"encoding/base64"
)

// canary begins the value of every Secret of the workload. Its length is a
// multiple of 3, so that its base64 form is the same whatever follows.
const canary = "CANARY-of-a-secret-value-"

// holdsCanary reports whether the bytes hold a Secret's value, as it is or as the
// API writes it.
func holdsCanary(raw []byte) bool {
	return bytes.Contains(raw, []byte(canary[:24])) || bytes.Contains(raw, []byte(base64.StdEncoding.EncodeToString([]byte(canary[:24]))))
}
