package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/script: one file or more per command. Each has an admin
// server at $ADMIN, see [scriptAdmin], and an address that nobody listens at, $DEAF.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(env *testscript.Env) error {
			server := httptest.NewServer(scriptAdmin(env.WorkDir))
			env.Defer(server.Close)
			env.Setenv("ADMIN", server.Listener.Addr().String())
			env.Setenv("DEAF", "127.0.0.1:1")
			env.Setenv("GORACE", promptExit)
			return nil
		},
	})
}

// promptExit is for the race detector, which makes each process sleep for a second before it ends.
const promptExit = "atexit_sleep_ms=10"

// exits is the command "exits <code> <program> [args...]": exec for a program that
// ends with an exit code other than 0.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// scriptAdmin answers with the files of a script: "POST /verify" with admin/POST/verify,
// else with admin/POST/verify.503 and that status code. It writes what it is asked to
// the file requests.
func scriptAdmin(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := note(filepath.Join(dir, "requests"), r.Method+" "+r.URL.String()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		path := filepath.Join(dir, "admin", r.Method, filepath.FromSlash(r.URL.Path))
		for _, code := range []int{http.StatusOK, http.StatusNotFound, http.StatusServiceUnavailable} {
			file := path
			if code != http.StatusOK {
				file += "." + strconv.Itoa(code)
			}
			if body, err := os.ReadFile(file); err == nil {
				w.WriteHeader(code)
				_, _ = w.Write(body)
				return
			}
		}
		http.NotFound(w, r)
	})
}

// note appends a line to a file.
func note(path, line string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = fmt.Fprintln(f, line)
	return err
}
