// Package display makes texts fit to be shown: the errors and reasons that informd
// stores, logs and prints. An API server, a conversion webhook or an endpoint may send
// megabytes, and an error may quote a URL with a password. It also finds the word that a
// user probably meant. All of informd calls it.
package display

import (
	"fmt"
	"regexp"
	"strings"
)

// MaxReason is the limit of a reason in bytes.
const MaxReason = 1 << 10

// tail is how many bytes of the end stay: an error begins with what was tried and ends
// with the cause.
const tail = 256

// Reason returns a text of at most [MaxReason] bytes, without credentials, see
// [Addresses]. A longer text loses its middle,
// and says how many bytes.
func Reason(text string) string {
	text = Addresses(text)
	if len(text) <= MaxReason {
		return text
	}
	const mark = len(" ... ( bytes left out) ... ") + len("9223372036854775807")
	// A character that is cut is left out.
	head := strings.ToValidUTF8(text[:MaxReason-tail-mark], "")
	end := strings.ToValidUTF8(text[len(text)-tail:], "")
	return fmt.Sprintf("%s ... (%d bytes left out) ... %s", head, len(text)-len(head)-len(end), end)
}

// userinfo is what stands before the @ of an address: a user, a password, a token. A
// password that is not escaped may hold a slash: what follows the colon is no port then.
var userinfo = regexp.MustCompile(`://(?:[^\s"/?#]*@|[^\s"/?#:@]*:[^\s"/?#@]*[^\s"/?#@0-9][^\s"@]*@)`)

// Addresses returns the text with "<redacted>" in place of the user, the password and
// the token of each URL in it.
func Addresses(text string) string {
	if !strings.Contains(text, "://") || !strings.Contains(text, "@") {
		return text
	}
	return userinfo.ReplaceAllLiteralString(text, "://<redacted>@")
}

// Address is [Addresses] for a text that is one address, also without a scheme.
func Address(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 && !strings.Contains(text, "://") {
		return "<redacted>" + text[i:]
	}
	return Addresses(text)
}
