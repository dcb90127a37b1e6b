package postgres

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The bounds of jsonb that an object is kept within: the server refuses somewhat more. A number may have
// 131,072 digits before the point and 16,383 behind it.
const (
	maxDigits   = 16_000
	maxExponent = 16_000
	maxDepth    = 1_000
)

// storable reports whether jsonb can hold valid JSON: without \u0000, without half of a surrogate pair,
// and with numbers and a depth within bounds. What it misjudges the server refuses, and [tables] then
// stores it as text as well.
func storable(json []byte) bool {
	if !utf8.Valid(json) {
		return false
	}
	depth := 0
	for i := 0; i < len(json); {
		switch c := json[i]; {
		case c == '"':
			end, ok := stringEnd(json, i+1)
			if !ok {
				return false
			}
			i = end
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return false
			}
			i++
		case c == '}' || c == ']':
			depth--
			i++
		case c >= '0' && c <= '9':
			end := numberEnd(json, i)
			if !representable(json[i:end]) {
				return false
			}
			i = end
		default:
			i++
		}
	}
	return true
}

// stringEnd returns the index behind the string whose text begins at i, and whether jsonb takes its
// escapes.
func stringEnd(json []byte, i int) (end int, ok bool) {
	for i < len(json) {
		at := bytes.IndexByte(json[i:], '"')
		if at < 0 {
			return len(json), true
		}
		escape := bytes.IndexByte(json[i:i+at], '\\')
		if escape < 0 {
			return i + at + 1, true
		}
		i += escape
		r := escaped(json[i:])
		switch {
		case r == 0:
			return 0, false
		case utf16.IsSurrogate(r):
			if utf16.DecodeRune(r, escaped(json[i+6:])) == utf8.RuneError {
				return 0, false
			}
			i += 12
		case json[min(i+1, len(json)-1)] == 'u':
			i += 6
		default:
			i += 2
		}
	}
	return len(json), true
}

// escaped returns the code of the escape (backslash, u, four hex digits) that json begins with, -1 if there is none.
func escaped(json []byte) rune {
	if len(json) < 6 || json[0] != '\\' || json[1] != 'u' {
		return -1
	}
	code, err := strconv.ParseUint(string(json[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(code)
}

func numberEnd(json []byte, i int) int {
	for i < len(json) && (json[i] >= '0' && json[i] <= '9' || bytes.IndexByte([]byte("+-.eE"), json[i]) >= 0) {
		i++
	}
	return i
}

func representable(number []byte) bool {
	digits, exponent := number, 0
	if at := bytes.IndexAny(number, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(number[at+1:])); err != nil {
			return false
		}
		digits = number[:at]
	}
	return len(digits) <= maxDigits && max(exponent, -exponent) <= maxExponent-len(digits)
}
