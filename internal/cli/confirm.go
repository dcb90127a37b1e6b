package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// confirm asks a question on a terminal. Any answer but yes is an error, and so is a
// standard input that is no terminal.
func confirm(std streams, question string) error {
	if !asksTerminal(std.in) {
		return misused("standard input is no terminal: confirm with --yes")
	}
	fmt.Fprint(std.err, question+" [y/N] ")
	answer, err := bufio.NewReader(std.in).ReadString('\n')
	if err != nil && answer == "" {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed; informd changed nothing")
}

// keyboard is an input with a person behind it; tests have their own.
type keyboard interface{ Interactive() bool }

// asksTerminal reports whether a person can answer questions.
func asksTerminal(in io.Reader) bool {
	if k, ok := in.(keyboard); ok {
		return k.Interactive()
	}
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
