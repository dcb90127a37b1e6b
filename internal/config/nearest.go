package config

import (
	"fmt"
	"strings"

	"github.com/informd/informd/internal/spelling"
)

// didYouMean ends a message about a word that is none of the candidates: with
// the one that was probably meant, else with all of them.
func didYouMean(word string, candidates []string) string {
	if near, ok := Nearest(word, candidates); ok {
		return fmt.Sprintf("(did you mean %q?)", near)
	}
	return "(one of: " + strings.Join(candidates, ", ") + ")"
}

// Nearest returns the candidate that word was probably meant to be; see [spelling.Nearest].
func Nearest(word string, candidates []string) (string, bool) {
	return spelling.Nearest(word, candidates)
}

// maxWord is the length above which a word gets no guess.
const maxWord = 64
