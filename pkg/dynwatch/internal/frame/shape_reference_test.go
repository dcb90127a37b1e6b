package frame_test

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// shapeReference is what a Shape must do, done to decoded objects.
type shapeReference struct {
	keep, omit, redact [][]string // paths, taken apart
	patterns           []*regexp.Regexp
	// hash makes the text that stands for a value; location has "[]" for elements.
	hash func(kind string, location []string, value string) string
}

// refPath takes a path apart; a key has "=" before it.
func refPath(path string) (steps []string) {
	for path != "" {
		switch {
		case path[0] == '.':
			path = path[1:]
		case path[0] == '*':
			steps, path = append(steps, "*"), path[1:]
		case strings.HasPrefix(path, "[]"):
			steps, path = append(steps, "[]"), path[2:]
		case path[0] == '[':
			d := json.NewDecoder(strings.NewReader(path[1:]))
			var key string
			if err := d.Decode(&key); err != nil {
				panic(err)
			}
			steps, path = append(steps, "="+key), path[1+d.InputOffset()+1:]
		default:
			n := strings.IndexAny(path+".", ".[")
			steps, path = append(steps, "="+path[:n]), path[n:]
		}
	}
	return steps
}

func refPaths(texts []string) (all [][]string) {
	for _, text := range texts {
		all = append(all, refPath(text))
	}
	return all
}

// identityPaths are what stays of every object.
func identityPaths() [][]string {
	return refPaths([]string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"})
}

// narrow are the rests of the paths that lead into what is one step down.
func narrow(paths [][]string, step string) (rest [][]string) {
	for _, p := range paths {
		switch {
		case len(p) == 0:
		case p[0] == step, p[0] == "*" && step[0] == '=':
			rest = append(rest, p[1:])
		case step == "[]": // a key is about the elements of an array
			rest = append(rest, p)
		}
	}
	return rest
}

func ends(paths [][]string) bool {
	return slices.ContainsFunc(paths, func(p []string) bool { return len(p) == 0 })
}

func (r shapeReference) apply(v any) any {
	if len(r.keep) > 0 {
		v, _ = kept(v, append(r.keep, identityPaths()...))
	}
	v = omitted(v, r.omit)
	return r.redacted(v, r.redact, nil)
}

// kept returns what stays of a value, and false for nothing.
func kept(v any, paths [][]string) (any, bool) {
	if ends(paths) {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any)
		for k, member := range v {
			if rest, ok := kept(member, narrow(paths, "="+k)); ok {
				out[k] = rest
			}
		}
		return out, slices.ContainsFunc(paths, func(p []string) bool { return p[0] != "[]" })
	case []any:
		out := []any{}
		for _, one := range v {
			if rest, ok := kept(one, narrow(paths, "[]")); ok {
				out = append(out, rest)
			}
		}
		return out, len(paths) > 0
	}
	return nil, false
}

func omitted(v any, paths [][]string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any)
		for k, member := range v {
			if rest := narrow(paths, "="+k); !ends(rest) {
				out[k] = omitted(member, rest)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, one := range v {
			if rest := narrow(paths, "[]"); !ends(rest) {
				out = append(out, omitted(one, rest))
			}
		}
		return out
	}
	return v
}

func (r shapeReference) redacted(v any, paths [][]string, location []string) any {
	if ends(paths) {
		if text, ok := v.(string); ok {
			return r.hash("text", location, text)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return r.hash("json", location, string(raw))
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any)
		for k, member := range v {
			out[k] = r.redacted(member, narrow(paths, "="+k), append(location, "="+k))
		}
		return out
	case []any:
		out := []any{}
		for _, one := range v {
			out = append(out, r.redacted(one, narrow(paths, "[]"), append(location, "[]")))
		}
		return out
	case string:
		if !slices.ContainsFunc(identityPaths(), func(p []string) bool { return slices.Equal(p, location) }) {
			return r.redactedInside(v, location)
		}
	}
	return v
}

// redactedInside replaces every longest run of what the patterns match.
func (r shapeReference) redactedInside(text string, location []string) string {
	var all [][]int
	for _, p := range r.patterns {
		all = append(all, p.FindAllStringIndex(text, -1)...)
	}
	slices.SortStableFunc(all, func(a, b []int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	var b strings.Builder
	done := 0
	for i := 0; i < len(all); {
		from, to := all[i][0], all[i][1]
		for i++; i < len(all) && all[i][0] < to; i++ {
			to = max(to, all[i][1])
		}
		if from < to {
			b.WriteString(text[done:from] + r.hash("match", location, text[from:to]))
			done = to
		}
	}
	return b.String() + text[done:]
}

// keyedHash is the hash with a key in an object.
func keyedHash(key, namespace, name string) func(kind string, location []string, value string) string {
	return func(kind string, location []string, value string) string {
		var place []byte
		for _, step := range location {
			if step == "[]" {
				place = append(place, 0)
				continue
			}
			place = binary.AppendUvarint(place, uint64(len(step))) // with its "=": one more than the key
			place = append(place, step[1:]...)
		}
		h := hmac.New(sha256.New, []byte(key))
		for _, part := range []string{kind, namespace, name, string(place), ""} {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
			h.Write([]byte(part))
		}
		h.Write([]byte(value))
		return "hmac-sha256:" + hex.EncodeToString(h.Sum(nil))[:32]
	}
}

// decodeAny decodes JSON with its numbers as they stand.
func decodeAny(data []byte) any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}
