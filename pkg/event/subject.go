package event

import (
	"errors"
	"fmt"
	"strings"
)

// controlToken stands in the place of a group in the subjects of control
// records. No API group can be called so: groups are DNS names.
const controlToken = "_informd"

// NATSSubject is where the event goes on NATS:
// "<prefix>.<cluster>.<group>.<resource>.<namespace>.<name>" for objects,
// "<prefix>.<cluster>._informd.<op>.<target>" for control records. The core
// group is "core", no namespace is "_"; every part but the prefix is escaped
// with [EscapeToken]. Prefix must have passed [ValidatePrefix].
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

// EscapeToken turns any string into one NATS subject token: "." becomes "_",
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

// UnescapeToken reverses [EscapeToken]. It fails for what EscapeToken cannot
// have made.
func UnescapeToken(token string) (string, error) {
	b := make([]byte, 0, len(token))
	for i := 0; i < len(token); i++ {
		switch c := token[i]; {
		case c == '_':
			b = append(b, '.')
		case c == '%':
			if i+2 >= len(token) {
				return "", fmt.Errorf("unescape %q: cut escape", token)
			}
			hi, lo := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
			if hi < 0 || lo < 0 || plainInToken(byte(hi<<4|lo)) {
				return "", fmt.Errorf("unescape %q: bad escape %q", token, token[i:i+3])
			}
			b = append(b, byte(hi<<4|lo))
			i += 2
		case c != '.' && plainInToken(c):
			b = append(b, c)
		default:
			return "", fmt.Errorf("unescape %q: byte %q is never in a token", token, c)
		}
	}
	return string(b), nil
}

// ValidatePrefix checks that a configured subject prefix is one or more plain
// NATS tokens.
func ValidatePrefix(prefix string) error {
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" {
			return errors.New("a subject prefix is one or more tokens joined by dots; none may be empty")
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r == '*' || r == '>' || r > '~' }) || strings.HasPrefix(token, "$") {
			return fmt.Errorf("subject token %q: wildcards, white space, non-ASCII and a leading $ are not allowed", token)
		}
	}
	return nil
}
