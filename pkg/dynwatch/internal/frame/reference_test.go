package frame_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// reference is what a Normaliser must do, done with encoding/json: the object is
// decoded, and what is kept is kept as the bytes that encoding/json hands out.
type reference struct {
	apiVersion, kind string
	secret           bool
}

// refMember is one member of an object: its key as it stands and decoded, and its
// value as it stands.
type refMember struct {
	rawKey, key string
	value       json.RawMessage
}

var errRefused = errors.New("refused")

// normalise returns the object's identity and bytes, or an error for an object
// that is to be refused. Values of a Secret become "<hash>".
func (r reference) normalise(raw []byte) (namespace, name, uid string, rv uint64, out []byte, err error) {
	refuse := func(why string) (string, string, string, uint64, []byte, error) {
		return "", "", "", 0, nil, fmt.Errorf("%w: %s", errRefused, why)
	}
	// The decoded value decides what is an object at all.
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var decoded map[string]any
	if err := d.Decode(&decoded); err != nil || decoded == nil {
		return refuse("not an object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse("trailing bytes")
	}
	if !utf8.Valid(raw) {
		return refuse("not UTF-8")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return refuse(err.Error())
	}
	top := members(compact.Bytes())
	if duplicate(top, "apiVersion", "kind", "metadata") {
		return refuse("duplicate")
	}
	metadata, ok := decoded["metadata"].(map[string]any)
	if !ok {
		return refuse("no metadata")
	}
	for field, into := range map[string]*string{"namespace": &namespace, "name": &name, "uid": &uid} {
		v, there := metadata[field]
		if *into, ok = v.(string); there && !ok {
			return refuse(field + " is not a string")
		}
	}
	revision, _ := metadata["resourceVersion"].(string)
	rv, err = strconv.ParseUint(revision, 10, 64)
	if name == "" || uid == "" || err != nil || strings.HasPrefix(revision, "0") || strings.HasPrefix(revision, "+") {
		return refuse("identity")
	}
	out = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, r.apiVersion, r.kind)
	for _, m := range top {
		value := m.value
		switch {
		case m.key == "apiVersion" || m.key == "kind":
			continue
		case m.key == "metadata":
			if value, err = r.metadata(value); err != nil {
				return refuse(err.Error())
			}
		case r.secret && (m.key == "data" || m.key == "stringData"):
			value = hashed(value)
		}
		out = fmt.Appendf(out, `,%s:%s`, m.rawKey, value)
	}
	return namespace, name, uid, rv, append(out, '}'), nil
}

func (r reference) metadata(raw json.RawMessage) (json.RawMessage, error) {
	all := members(raw)
	if duplicate(all, "namespace", "name", "uid", "resourceVersion", "managedFields", "annotations", "ownerReferences") {
		return nil, errors.New("duplicate in metadata")
	}
	var kept []refMember
	for _, m := range all {
		if m.key == "managedFields" {
			continue
		}
		if m.key == "annotations" && m.value[0] == '{' {
			annotations := members(m.value)
			if duplicate(annotations, lastApplied) {
				return nil, errors.New("duplicate in annotations")
			}
			var rest []refMember
			for _, a := range annotations {
				if r.secret && a.key != "helm.sh/hook" {
					a.value = json.RawMessage(`"<hash>"`)
				}
				if a.key != lastApplied {
					rest = append(rest, a)
				}
			}
			if len(rest) == 0 && len(annotations) > 0 {
				continue
			}
			m.value = object(rest)
		} else if m.key == "annotations" && r.secret && string(m.value) != "null" {
			m.value = json.RawMessage(`"<hash>"`)
		}
		kept = append(kept, m)
	}
	return object(kept), nil
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// hashed replaces what a Secret's data holds.
func hashed(raw json.RawMessage) json.RawMessage {
	if raw[0] != '{' {
		return hashedWhole(raw)
	}
	all := members(raw)
	for i := range all {
		all[i].value = json.RawMessage(`"<hash>"`)
	}
	return object(all)
}

// hashedWhole replaces a field that is not an object.
func hashedWhole(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return raw
	}
	return json.RawMessage(`"<hash>"`)
}

func duplicate(all []refMember, keys ...string) bool {
	for _, key := range keys {
		n := 0
		for _, m := range all {
			if m.key == key {
				n++
			}
		}
		if n > 1 {
			return true
		}
	}
	return false
}

func object(all []refMember) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", m.rawKey, m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// members takes a valid compact object apart.
func members(raw []byte) []refMember {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		panic(err)
	}
	var all []refMember
	for d.More() {
		from := d.InputOffset()
		token, err := d.Token()
		if err != nil {
			panic(err)
		}
		rawKey := strings.TrimLeft(string(raw[from:d.InputOffset()]), ",")
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			panic(err)
		}
		all = append(all, refMember{rawKey: rawKey, key: fmt.Sprint(token), value: value})
	}
	return all
}

// list returns what a list in body holds, and false if it is no valid list.
func list(body []byte) (items []string, ok bool) {
	if !json.Valid(body) || !utf8.Valid(body) {
		return nil, false
	}
	trimmed := bytes.TrimSpace(body)
	if trimmed[0] != '{' {
		return nil, false
	}
	for _, m := range members(trimmed) {
		if m.key != "items" {
			continue
		}
		var all []json.RawMessage
		if err := json.Unmarshal(m.value, &all); err != nil || ok {
			return nil, false
		}
		for _, item := range all {
			items = append(items, string(item))
		}
		ok = true
	}
	return items, ok
}
