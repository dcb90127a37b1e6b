package frame_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

var refTime = regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"$`)

// inMetadata returns the values of a key in the metadata of an object that can be
// passed on.
func inMetadata(raw []byte, key string) (values []json.RawMessage) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		panic(err)
	}
	for _, top := range members(compact.Bytes()) {
		if top.key != "metadata" {
			continue
		}
		for _, m := range members(top.value) {
			if m.key == key {
				values = append(values, m.value)
			}
		}
	}
	return values
}

// elementsOf are those of an array of objects, nil and false if it is none.
func elementsOf(raw json.RawMessage) (all [][]refMember, ok bool) {
	var elements []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &elements) != nil {
		return nil, false
	}
	for _, e := range elements {
		if e = bytes.TrimSpace(e); e[0] != '{' {
			return nil, false
		}
		all = append(all, members(e))
	}
	return all, true
}

// stringsIn are the members of these keys, false if one is there twice or no string.
func stringsIn(all []refMember, keys ...string) (map[string]string, bool) {
	found := make(map[string]string)
	if duplicate(all, keys...) {
		return nil, false
	}
	for _, m := range all {
		for _, key := range keys {
			var text *string
			if m.key != key {
				continue
			}
			if err := json.Unmarshal(m.value, &text); err != nil || text == nil {
				return nil, false
			}
			found[key] = *text
		}
	}
	return found, true
}

// refActor is the actor of an object, decoded.
func refActor(raw []byte) (newest map[string]string) {
	values := inMetadata(raw, "managedFields")
	if len(values) == 0 {
		return nil
	}
	entries, ok := elementsOf(values[0])
	if !ok {
		return nil
	}
	var last time.Time
	for _, e := range entries {
		w, ok := stringsIn(e, "manager", "operation", "subresource", "time")
		if !ok {
			return nil
		}
		text, ok := w["time"]
		if !ok {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || !slices.ContainsFunc(e, func(m refMember) bool { return m.key == "time" && refTime.Match(m.value) }) {
			return nil // also if it is written with escapes
		}
		if newest == nil || !at.Before(last) {
			newest, last = w, at
		}
	}
	for key, text := range newest {
		if text == "" {
			delete(newest, key)
		}
	}
	return newest
}

// refOwner is the controller of an object.
func refOwner(raw []byte) (controller *frame.Owner) {
	values := inMetadata(raw, "ownerReferences")
	if len(values) != 1 {
		return nil
	}
	references, ok := elementsOf(values[0])
	if !ok {
		return nil
	}
	for _, r := range references {
		texts, ok := stringsIn(r, "apiVersion", "kind", "name", "uid")
		if !ok || duplicate(r, "controller") {
			return nil
		}
		for _, m := range r {
			if m.key != "controller" || string(m.value) != "true" {
				continue
			}
			one := frame.Owner{APIVersion: texts["apiVersion"], Kind: texts["kind"], Name: texts["name"], UID: texts["uid"]}
			if controller != nil || one.APIVersion == "" || one.Kind == "" || one.Name == "" || one.UID == "" ||
				len(one.APIVersion)+len(one.Kind)+len(one.Name)+len(one.UID) > 1024 {
				return nil
			}
			controller = &one
		}
	}
	return controller
}
