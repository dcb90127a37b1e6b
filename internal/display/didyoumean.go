package display

import (
	"fmt"
	"strings"
)

// MaxWord is the length in bytes of the longest word that gets a guess: the distance costs
// its square.
const MaxWord = 64

// Nearest returns the candidate that the user probably meant: the same word in another
// spelling (case, "-", "_"), else the candidate with the fewest typing errors, at most one
// in three characters, else the first candidate that is a prefix of the word or has it as
// its prefix.
func Nearest(word string, candidates []string) (string, bool) {
	if word == "" || len(word) > MaxWord {
		return "", false
	}
	plain := plainSpelling(word)
	best, bestDistance := "", max(1, len(plain)/3)+1
	for _, c := range candidates {
		candidate := plainSpelling(c)
		switch d := distance(plain, candidate); {
		case d < bestDistance:
			best, bestDistance = c, d
		case best == "" && min(len(plain), len(candidate)) >= 3 && (strings.HasPrefix(candidate, plain) || strings.HasPrefix(plain, candidate)):
			best = c
		}
	}
	return best, best != ""
}

// DidYouMean ends a message about an unknown word with its [Nearest] candidate. It returns ""
// if there is none.
func DidYouMean(word string, candidates []string) string {
	if near, ok := Nearest(word, candidates); ok {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

func plainSpelling(s string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}

// distance counts the letters that must be put in, left out, replaced or
// swapped with their neighbour to turn a into b.
func distance(a, b string) int {
	// The rows of the classic table, for a[:i-1], a[:i] and the one being filled.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
