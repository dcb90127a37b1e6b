package event

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// controlToken replaces the group in the subjects of control events. No API group can have
// that name, because groups are DNS names.
const controlToken = "_informd"

// NATSSubject is the NATS subject of the event:
// "<prefix>.<cluster>.<group>.<resource>.<namespace>.<name>" for objects,
// "<prefix>.<cluster>._informd.<op>.<target>" for control events. The core group is "core",
// an empty namespace is "_". Every part except the prefix is escaped with [EscapeToken].
// The prefix is one or more plain tokens, joined by dots.
func (e *Event) NATSSubject(prefix string) string {
	root := prefix + "." + EscapeToken(e.Cluster) + "."
	if e.Op.Control() {
		return root + controlToken + "." + string(e.Op) + "." + EscapeToken(e.Target)
	}
	namespace := "_"
	if e.Namespace != "" {
		namespace = EscapeToken(e.Namespace)
	}
	return root + EscapeToken(GroupOrCore(e.Group)) + "." + EscapeToken(e.Resource) + "." + namespace + "." + EscapeToken(e.Name)
}

// EscapeToken converts any string into one NATS subject token: "." becomes "_",
// and every byte outside [A-Za-z0-9:-] becomes "%XX" ("_" and "%" too).
// [UnescapeToken] reverses it.
func EscapeToken(s string) string {
	for i := range len(s) {
		if s[i] == '.' || !plainInToken(s[i]) {
			return strings.ReplaceAll(percentEncode(s, plainInToken), ".", "_")
		}
	}
	return s
}

// plainInToken also passes the dot, which EscapeToken then replaces.
func plainInToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == ':' || c == '-' || c == '.'
}

// UnescapeToken reverses [EscapeToken]. It fails for tokens that EscapeToken cannot produce.
func UnescapeToken(token string) (string, error) {
	s, err := url.PathUnescape(strings.ReplaceAll(token, "_", "."))
	if err == nil && EscapeToken(s) != token {
		err = errors.New("EscapeToken does not produce it")
	}
	if err != nil {
		return "", fmt.Errorf("unescape token %q: %w", token, err)
	}
	return s, nil
}
