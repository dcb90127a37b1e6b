package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/informd/informd/internal/config/internal/document"
)

// fileKey is a key of the config that names a file to read.
type fileKey struct {
	key, name string
	at        Pos
	origin    string // the flag or variable that set the key, or ""
}

// fileKeys returns the keys that name files to read: texts whose keys end in File. It reads
// the decoded config, whose size has a limit: aliases can multiply the nodes of a file.
func (r *reading) fileKeys(c *Config) []fileKey {
	found := r.fileKeysIn(reflect.ValueOf(c).Elem(), "")
	for i, s := range c.Sinks {
		if s.Options != nil {
			found = append(found, r.fileKeysIn(reflect.ValueOf(s.Options).Elem(), document.Index("sinks", i))...)
		}
	}
	return found
}

// fileKeysIn returns those of a struct and of the structs in it. No list but sinks has any.
func (r *reading) fileKeysIn(of reflect.Value, path string) []fileKey {
	var found []fileKey
	for _, f := range fieldsOf(of) {
		at := document.Join(path, f.key)
		switch {
		case f.value.Kind() == reflect.Struct:
			found = append(found, r.fileKeysIn(f.value, at)...)
		case f.value.Kind() == reflect.String && strings.HasSuffix(f.key, "File") && f.value.String() != "":
			found = append(found, fileKey{at, f.value.String(), r.place(at), r.origins[at]})
		}
	}
	return found
}

// MissingFiles returns a warning for each file that a key of the config names and that does
// not exist. It is not in Warnings: the config may be for another machine.
func (c *Config) MissingFiles() Errors {
	var p document.Problems
	for _, f := range c.files {
		if _, err := os.Stat(f.name); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		at := f.at
		if p.File = c.Path; f.origin != "" {
			p.File, at = f.origin, Pos{}
		}
		next := ""
		if !filepath.IsAbs(f.name) {
			next = "; the path is relative to the working directory of informd"
		}
		p.Warn(at, f.key, "file %s does not exist on this machine: create it where informd runs%s", document.Quote(f.name), next)
	}
	return p.Warnings
}
