package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// FileKey is a key of the config that names a file to read.
type FileKey struct {
	Key, Name string
	At        Pos
	Origin    string // the flag or variable that set the key, or ""
}

// MissingFiles returns a warning for each file that a key of the config names and that does
// not exist. It is not in Warnings: the config may be for another machine.
func (c *Config) MissingFiles() Errors {
	var p Problems
	for _, f := range c.Files {
		if _, err := os.Stat(f.Name); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		at := f.At
		if p.File = c.Path; f.Origin != "" {
			p.File, at = f.Origin, Pos{}
		}
		next := ""
		if !filepath.IsAbs(f.Name) {
			next = "; the path is relative to the working directory of informd"
		}
		p.Warn(at, f.Key, "file %s does not exist on this machine: create it where informd runs%s", Quote(f.Name), next)
	}
	return p.Warnings
}
