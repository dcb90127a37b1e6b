package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/informd/informd/pkg/sink/internal/compress"
)

// numbered is the name of the i-th file before the current one, as it is before it
// is compressed.
func (l *log) numbered(i int) string { return l.path + "." + strconv.Itoa(i) }

// suffixes returns what the names of number i end in: more than one if a
// compression was interrupted, none if there is no such file.
func (l *log) suffixes(i int) []string {
	var found []string
	for _, suffix := range compress.Suffixes() {
		if exists(l.numbered(i) + suffix) {
			found = append(found, suffix)
		}
	}
	return found
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// rotate moves all files up by one and begins a new one. If it fails or the
// process ends halfway there is a hole in the numbers, which the next rotation
// fills.
func (l *log) rotate() error {
	if err := l.removeSurplus(); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	last := 1 // the number that the oldest file to move gets
	for last < l.maxFiles-1 && len(l.suffixes(last)) > 0 {
		last++
	}
	// What takes its place may have another suffix, and so not replace it.
	if err := l.remove(last); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	for i := last; i > 1; i-- {
		for _, suffix := range l.suffixes(i - 1) {
			if err := os.Rename(l.numbered(i-1)+suffix, l.numbered(i)+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("rotate: %w", err)
			}
		}
	}
	var err error
	if l.maxFiles == 1 {
		err = os.Remove(l.path)
	} else {
		err = os.Rename(l.path, l.numbered(1))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rotate: %w", err)
	}
	if err := l.close(); err != nil {
		return err
	}
	return l.open()
}

// remove removes the files of number i.
func (l *log) remove(i int) error {
	for _, suffix := range l.suffixes(i) {
		if err := removeIfThere(l.numbered(i) + suffix); err != nil {
			return err
		}
	}
	return nil
}

// removeSurplus removes the files beyond maxFiles, which was larger once. It is part of a
// rotation: where logrotate rotates instead, such files are logrotate's.
func (l *log) removeSurplus() error {
	for i := l.maxFiles; len(l.suffixes(i)) > 0; i++ {
		if err := l.remove(i); err != nil {
			return fmt.Errorf("remove file beyond maxFiles: %w", err)
		}
		l.logger.Info("file beyond maxFiles removed", "path", l.numbered(i))
	}
	return nil
}
