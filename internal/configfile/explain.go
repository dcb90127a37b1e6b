package configfile

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/token"

	"github.com/informd/informd/internal/config"
)

// explainSyntax says where the parser stopped and why, in words that help.
func explainSyntax(err error, tokens token.Tokens) (config.Pos, string) {
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) || syntax.Token == nil {
		return fileStart(), "not YAML: " + err.Error()
	}
	at := position(syntax.Token)
	message := "not YAML: " + syntax.Message
	tagged := slices.ContainsFunc(tokens, func(t *token.Token) bool {
		return t.Type == token.TagType && t.Position.Line == at.Line
	})
	switch star, glued := unquotedStar(tokens, at.Line), gluedKey(tokens, at.Line); {
	case strings.Contains(message, "character '\t'"):
		return at, "a tab: YAML is indented with spaces"
	case star != nil:
		return position(star), "not YAML: a value that begins with * goes in quotes"
	case glued != nil:
		return position(glued), "not YAML: " + spaceMissing
	case tagged, strings.Contains(message, "invalid tag"):
		return at, message + "; text that starts with ! goes in quotes"
	case strings.Contains(message, "invalid header option"):
		// The rest of the message is the line itself, which may be a secret's.
		return at, "not YAML: | and > stand alone at the end of their line; text that starts with one goes in quotes"
	case strings.Contains(message, "mapping value is not allowed"):
		return at, message + `; text with ": " in it goes in quotes, and each key on a separate line`
	case strings.Contains(message, "',' or ']' must be specified"):
		return at, message + "; text with a bracket in it goes in quotes"
	case strings.Contains(message, "value is not allowed"):
		return at, message + "; check the indentation"
	}
	return at, message
}

// unquotedStar returns the first * on a line that begins no alias: none follows it, or
// one that no anchor goes with. The parser may be on the next line already.
func unquotedStar(tokens token.Tokens, line int) *token.Token {
	anchors := map[string]bool{}
	for i, t := range tokens[:max(len(tokens)-1, 0)] {
		if t.Type == token.AnchorType {
			anchors[tokens[i+1].Value] = true
		}
	}
	for i, t := range tokens {
		if t.Type != token.AliasType || t.Position.Line != line && t.Position.Line != line-1 {
			continue
		}
		if i+1 == len(tokens) || tokens[i+1].Position.Line != t.Position.Line || !anchors[tokens[i+1].Value] {
			return t
		}
	}
	return nil
}

// spaceMissing is the message for "-resource: pods" and "resource:pods".
const spaceMissing = "a space is missing behind a dash or a colon, as in - resource: pods"

// isGlued reports whether a text was intended as an entry of a list, or as a key with its value. A
// text with a slash behind the colon is a URL.
func isGlued(s string) bool { return gluedText.MatchString(s) }

var gluedText = regexp.MustCompile(`^(-[A-Za-z]|[A-Za-z]+:[^/\s])`)

// gluedKey returns the token that begins a line, behind a dash or not, if it is one.
func gluedKey(tokens token.Tokens, line int) *token.Token {
	for _, t := range tokens {
		if t.Position.Line != line || t.Type == token.SequenceEntryType {
			continue
		}
		if t.Type == token.StringType && isGlued(t.Value) {
			return t
		}
		return nil
	}
	return nil
}
