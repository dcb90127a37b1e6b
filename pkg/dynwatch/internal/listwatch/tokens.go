package listwatch

import "errors"

// errEndless says that a list has no end. Its caller may list again from the beginning.
var errEndless = errors.New("the server repeats its continue tokens, so that the list has no end")

// tokens notices that the continue tokens of a list repeat. It holds one of them, and replaces it
// after 1, 2, 4, ... others: if the tokens go round in a circle, the one that it holds comes again.
type tokens struct {
	one         string
	since, most int
}

// repeat reports whether a token is one that came before.
func (t *tokens) repeat(next string) bool {
	if next == t.one {
		return true
	}
	if t.since++; t.since > t.most {
		t.one, t.since, t.most = next, 0, 2*t.most+1
	}
	return false
}
