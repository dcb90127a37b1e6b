// Package search runs regular expressions within a time that the text cannot exceed. Go's
// take time in proportion to the text and to the program that an expression is compiled
// to, and all matches of one may take the square of that. Expressions of a config meet
// texts that tenants of a cluster write. Packages fieldpath and dynwatch and the
// functions of CEL call it.
package search

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"time"
)

// MaxSize is the limit of a program.
const MaxSize = 10_000

// Size returns the number of instructions of the program that an expression is compiled
// to. It is an error if there are more than [MaxSize].
func Size(expression string) (int, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	if n := len(program.Inst); n > MaxSize {
		return n, fmt.Errorf("the regular expression has %d steps, at most %d are allowed: write fewer or shorter repetitions", n, MaxSize)
	}
	return len(program.Inst), nil
}

// over ends a search.
type over struct{}

// All calls found with the place of every match in text, in order, until that returns
// false, and returns true. After limit it ends with the next match, and returns false.
func All(pattern *regexp.Regexp, text []byte, limit time.Duration, found func(from, to int) bool) (complete bool) {
	defer func() {
		switch fault := recover(); fault.(type) {
		case nil, over:
		default:
			panic(fault)
		}
	}()
	started := time.Now()
	// Package regexp has no other function that shows the matches one by one. A match is
	// a part of text, and its capacity says which.
	pattern.ReplaceAllFunc(text, func(match []byte) []byte {
		if time.Since(started) > limit {
			panic(over{})
		}
		from := cap(text) - cap(match)
		if !found(from, from+len(match)) {
			complete = true
			panic(over{})
		}
		return nil
	})
	return true
}
