package objects

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/informd/informd/pkg/internal/jsonend"
)

// deepest is the depth up to which decoder takes an object. It recurses once per level.
const deepest = 1000

// decoder decodes the JSON of an object into the values that apimachinery's json.Unmarshal
// decodes, in half of the time. It shares equal texts and makes maps of the right size. It takes no
// white space outside of strings. Its memory is used again.
type decoder struct {
	text, kept []byte // memory for callers: the JSON, and a part of it

	data     []byte
	words    *words
	depth    int
	members  []field // of the objects that are not complete
	elements []any   // of the arrays that are not complete
	unquoted []byte
	word     word // the newest one that is not shared
}

type field struct {
	key   string
	value any
}

// decode returns the object, or false if another decoder must decode it or report the error. The
// object shares no memory with data.
func (d *decoder) decode(data []byte, shared *words) (o map[string]any, ok bool) {
	d.data, d.words, d.depth = data, shared, 0
	v, end := d.value(0)
	if o, ok = v.(map[string]any); end != len(data) {
		d.members, d.elements, ok = nil, nil, false // of an object that is not complete
	}
	d.data, d.words = nil, nil
	return o, ok
}

// next returns the byte at i, 0 behind the end.
func (d *decoder) next(i int) byte {
	if i < len(d.data) {
		return d.data[i]
	}
	return 0
}

// value decodes the value that begins at i. The end is [jsonend.None] for what this decoder does
// not take.
func (d *decoder) value(i int) (v any, end int) {
	switch d.next(i) {
	case '"':
		w, end := d.string(i)
		if w == nil {
			return nil, jsonend.None
		}
		return w.value, end
	case '{', '[':
		if d.depth++; d.depth > deepest {
			return nil, jsonend.None
		}
		if d.data[i] == '{' {
			v, end = d.object(i + 1)
		} else {
			v, end = d.array(i + 1)
		}
		d.depth--
		return v, end
	case 't':
		return true, d.literal(i, "true")
	case 'f':
		return false, d.literal(i, "false")
	case 'n':
		return nil, d.literal(i, "null")
	default:
		return d.number(i)
	}
}

func (d *decoder) literal(i int, text string) (end int) {
	if !bytes.HasPrefix(d.data[i:], []byte(text)) {
		return jsonend.None
	}
	return i + len(text)
}

// Object decodes the object whose first member is at i.
func (d *decoder) object(i int) (v any, end int) {
	if d.next(i) == '}' {
		return map[string]any{}, i + 1
	}
	for from := len(d.members); d.next(i) == '"'; i++ {
		key, behind := d.string(i)
		if key == nil || d.next(behind) != ':' {
			break
		}
		name := key.text // value uses key again
		if v, i = d.value(behind + 1); i == jsonend.None {
			break
		}
		d.members = append(d.members, field{name, v})
		if c := d.next(i); c == '}' {
			o := make(map[string]any, len(d.members)-from)
			for _, m := range d.members[from:] {
				o[m.key] = m.value
			}
			clear(d.members[from:])
			d.members = d.members[:from]
			return o, i + 1
		} else if c != ',' {
			break
		}
	}
	return nil, jsonend.None
}

// array decodes the array whose first element is at i.
func (d *decoder) array(i int) (v any, end int) {
	if d.next(i) == ']' {
		return []any{}, i + 1
	}
	for from := len(d.elements); ; i++ {
		if v, i = d.value(i); i == jsonend.None {
			return nil, jsonend.None
		}
		d.elements = append(d.elements, v)
		if c := d.next(i); c == ']' {
			a := append(make([]any, 0, len(d.elements)-from), d.elements[from:]...)
			clear(d.elements[from:])
			d.elements = d.elements[:from]
			return a, i + 1
		} else if c != ',' {
			return nil, jsonend.None
		}
	}
}

// string returns the string whose opening quote is at i, until the next call.
func (d *decoder) string(i int) (w *word, end int) {
	end, escapes := jsonend.Text(d.data, i)
	if end == jsonend.None {
		return nil, end
	}
	raw := d.data[i+1 : end-1]
	if len(raw) > longestWord {
		return d.unknown(raw, escapes), end
	}
	slot, hash := d.words.slot(raw)
	if w = slot.find(raw); w == nil {
		if w = d.unknown(raw, escapes); w != nil {
			slot.add(hash, raw, *w)
		}
	}
	return w, end
}

// unknown decodes the content of a string. It returns nil if that is not valid.
func (d *decoder) unknown(raw []byte, escapes bool) *word {
	content, simple := raw, !escapes && plain(raw)
	if !simple {
		content, simple = d.unquote(raw)
	}
	d.word.text = string(content)
	if !simple && json.Unmarshal(slices.Concat([]byte{'"'}, raw, []byte{'"'}), &d.word.text) != nil {
		return nil
	}
	d.word.value = d.word.text
	return &d.word
}

// unquote decodes the escapes that encoders make of usual texts.
func (d *decoder) unquote(quoted []byte) (content []byte, simple bool) {
	content = d.unquoted[:0]
	for {
		n := bytes.IndexByte(quoted, '\\')
		if n < 0 {
			content = append(content, quoted...)
			d.unquoted = content
			return content, plain(quoted)
		}
		if !plain(quoted[:n]) {
			return nil, false
		}
		content = append(content, quoted[:n]...)
		quoted = quoted[n+1:]
		switch quoted[0] { // a quote is behind the last backslash at least
		case '"', '\\', '/':
			content = append(content, quoted[0])
		case 'n':
			content = append(content, '\n')
		case 't':
			content = append(content, '\t')
		case 'u': // as in \u0026
			if len(quoted) < len("u0026") {
				return nil, false
			}
			c, err := strconv.ParseUint(string(quoted[1:5]), 16, 16)
			if err != nil || c >= utf8.RuneSelf {
				return nil, false
			}
			content = append(content, byte(c))
			quoted = quoted[4:]
		default:
			return nil, false
		}
		quoted = quoted[1:]
	}
}

// plain reports whether a text is valid UTF-8 without control characters.
func plain(text []byte) bool {
	const highs, spaces = 0x8080808080808080, 0x2020202020202020
	rest := text
	for ; len(rest) >= 8; rest = rest[8:] {
		// A byte below a space borrows, and so does one behind it at worst.
		if w := binary.LittleEndian.Uint64(rest); (w|(w-spaces))&highs != 0 {
			break
		}
	}
	ascii := true
	for _, c := range rest {
		if c < ' ' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.Valid(text)
}

// number decodes a number: an int64, or a float64 if it is none.
func (d *decoder) number(i int) (v any, end int) {
	from := i
	if d.next(i) == '-' {
		i++
	}
	digits := i
	var n int64
	for c := d.next(i); '0' <= c && c <= '9'; c = d.next(i) {
		n = n*10 + int64(c-'0')
		i++
	}
	switch c := d.next(i); {
	case i == digits, i-digits > 1 && d.data[digits] == '0':
		return nil, jsonend.None
	case c == '.', c == 'e', c == 'E', i-digits > 18:
		return d.longNumber(from)
	case digits > from:
		n = -n
	}
	return n, i
}

// longNumber decodes a number that may be none of an int64.
func (d *decoder) longNumber(i int) (v any, end int) {
	end = jsonend.Value(d.data, i)
	if end == jsonend.None || json.Unmarshal(d.data[i:end], &v) != nil {
		return nil, jsonend.None
	}
	return v, end
}
