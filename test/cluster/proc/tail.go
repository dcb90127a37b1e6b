package proc

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

const (
	tailBytes = 8 << 10
	tailLines = 30
)

// tail returns the last lines of the file at path under a heading, or says why
// it cannot: it only ever decorates another error.
func tail(path string) string {
	text, err := readEnd(path)
	if err != nil {
		return fmt.Sprintf("(log not readable: %v)", err)
	}
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	lines = lines[max(0, len(lines)-tailLines):]
	return fmt.Sprintf("--- end of %s\n%s\n---", path, bytes.Join(lines, []byte("\n")))
}

func readEnd(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-tailBytes)
	return io.ReadAll(io.NewSectionReader(file, from, tailBytes))
}
