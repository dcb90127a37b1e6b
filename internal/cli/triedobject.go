package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// maxObject bounds a file with an object, as the watch bounds an object.
const maxObject = 16 << 20

// triedObject is an object from a file.
type triedObject struct {
	File string
	// Raw is the object as JSON, in the order of its file if that is JSON.
	Raw []byte
	objectHead
}

// objectHead is what has to be known of an object.
type objectHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// misread returns the error of the file of an object. The help of the command says nothing of mistakes in it.
func misread(format string, args ...any) error {
	return usageError{msg: fmt.Sprintf(format, args...), inFile: true}
}

// readTried reads one object, in YAML or JSON. The file "-" is in.
func readTried(in io.Reader, file string) (*triedObject, error) {
	text, err := readTriedFile(in, file)
	if file == "-" {
		file = "standard input"
	}
	if err != nil {
		return nil, misread("read %s: %v", file, err)
	}
	raw := bytes.TrimSpace(text)
	if !json.Valid(raw) {
		if n := yamlDocuments(text); n > 1 {
			return nil, misread("%s has %d YAML documents: it must be one object", file, n)
		}
		if raw, err = yaml.YAMLToJSONStrict(text); err != nil {
			return nil, misread("%s is neither JSON nor YAML with one object: %v", file, err)
		}
	}
	t := &triedObject{File: file, Raw: raw}
	if err := json.Unmarshal(raw, &t.objectHead); err != nil {
		return nil, misread("%s is no Kubernetes object: %v", file, err)
	}
	switch {
	case t.APIVersion == "" || t.Kind == "":
		return nil, misread("%s has no apiVersion and kind", file)
	case t.Metadata.Name == "":
		return nil, misread("%s has no metadata.name: it must be one object, not a list", file)
	}
	if _, err := schema.ParseGroupVersion(t.APIVersion); err != nil {
		return nil, misread("%s: apiVersion %q is no group and version", file, t.APIVersion)
	}
	return t, nil
}

// yamlDocuments counts the documents with content, which the YAML library ignores after the first.
func yamlDocuments(text []byte) (n int) {
	content := regexp.MustCompile(`(?m)^[ \t]*[^#%\s\x{feff}]`) // no comment, and no directive
	for _, document := range regexp.MustCompile(`(?m)^(---|\.\.\.)(\s|$)`).Split(string(text), -1) {
		if content.MatchString(document) {
			n++
		}
	}
	return n
}

func readTriedFile(in io.Reader, file string) (text []byte, err error) {
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, errors.Unwrap(err) // without the path
		}
		defer func() { _ = opened.Close() }() // it was only read
		in = opened
	}
	text, err = io.ReadAll(io.LimitReader(in, maxObject+1))
	if err == nil && len(text) > maxObject {
		err = fmt.Errorf("more than %d bytes", maxObject)
	}
	return text, err
}

// Same reports whether the other one is an earlier state of the object.
func (t *triedObject) Same(old *triedObject) bool {
	return t.Kind == old.Kind && t.Metadata.Namespace == old.Metadata.Namespace && t.Metadata.Name == old.Metadata.Name &&
		(t.Metadata.UID == "" || old.Metadata.UID == "" || t.Metadata.UID == old.Metadata.UID)
}

// noUID is the uid of an object that the cluster has not given one yet.
const noUID = "00000000-0000-0000-0000-000000000000"

// Complete gives a manifest what a cluster would: a uid and a revision. Old may be nil.
// It returns what it had to make up.
func (t *triedObject) Complete(old *triedObject) (notes []string, err error) {
	var was objectHead
	if old != nil {
		was = old.objectHead
	}
	uid := cmp.Or(t.Metadata.UID, was.Metadata.UID, noUID)
	before, rv := cmp.Or(was.Metadata.ResourceVersion, "1"), "2"
	if n, err := strconv.ParseUint(before, 10, 63); err == nil {
		rv = strconv.FormatUint(n+1, 10)
	}
	if notes, err = t.fill(uid, rv); err != nil || old == nil {
		return notes, err
	}
	more, err := old.fill(uid, before)
	return append(notes, more...), err
}

// fill sets the uid and the revision of an object that has none.
func (t *triedObject) fill(uid, rv string) (notes []string, err error) {
	if t.Metadata.UID != "" && t.Metadata.ResourceVersion != "" {
		return nil, nil
	}
	var whole map[string]any
	if err := decodeNumbers(t.Raw, &whole); err != nil {
		return nil, misread("%s: %v", t.File, err)
	}
	metadata, ok := whole["metadata"].(map[string]any)
	if !ok { // it is there twice, or in other letters
		return nil, misread("%s: metadata is no mapping", t.File)
	}
	t.Metadata.UID, t.Metadata.ResourceVersion = cmp.Or(t.Metadata.UID, uid), cmp.Or(t.Metadata.ResourceVersion, rv)
	metadata["uid"], metadata["resourceVersion"] = t.Metadata.UID, t.Metadata.ResourceVersion
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(whole); err != nil {
		return nil, fmt.Errorf("encode %s: %w", t.File, err)
	}
	t.Raw = bytes.TrimSpace(text.Bytes())
	return []string{fmt.Sprintf("%s is a manifest: it counts as uid %s at revision %s", t.File, t.Metadata.UID, t.Metadata.ResourceVersion)}, nil
}
