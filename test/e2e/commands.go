package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// RunInformd runs informd to its end and returns its output and exit code.
func RunInformd(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, informdBinary, args...)
	var out, errs LockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// WriteFile writes a file into a directory of the test and returns its path.
func WriteFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// ReadLetters returns the dead letters of a sink, one per line.
func ReadLetters(t *testing.T, d *Informd, sink string) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(d.Must("deadletters", "list", "--sink", sink, "-o", "json")) {
		var l struct{ Letter json.RawMessage }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all.Write(append(l.Letter, '\n'))
	}
	return all.String()
}

// Command runs a command of informd that asks the running one, and returns what it
// prints and its exit code.
func (d *Informd) Command(args ...string) (string, int) {
	d.T.Helper()
	stdout, stderr, code := RunInformd(d.T, append(args, "--config", d.Config)...)
	return stdout + stderr, code
}

// Must is Command for one that succeeds.
func (d *Informd) Must(args ...string) string {
	d.T.Helper()
	output, code := d.Command(args...)
	if code != 0 {
		d.T.Errorf("informd %s: exit code %d\n%s", strings.Join(args, " "), code, output)
	}
	return output
}

// Letter is a dead letter as the command prints it.
type Letter struct {
	Sink   string
	Number uint64
	Letter struct {
		Time, Reason, Key string
		Raw               []byte
		Event             Record
	}
}

// Planned is a target as `informd plan -o json` shows it.
type Planned struct {
	Target, Version, State, Reason      string
	MissingVerbs, MissingNamespaceVerbs []string
	MatchingNamespaces                  *int
	Objects                             *uint64
	MoreObjects                         bool
}

// Plan returns the plan by target, with the resources of which informd works without
// verbs that are missing. It ends with that exit code.
func (d *Informd) Plan(exits int) (targets map[string]Planned, optional []string) {
	d.T.Helper()
	var document struct {
		Targets  []Planned
		Optional []struct{ Resource string }
	}
	stdout, stderr, code := RunInformd(d.T, "plan", "-o", "json", "--config", d.Config)
	if err := json.Unmarshal([]byte(stdout), &document); err != nil || code != exits {
		d.T.Fatalf("%v, exit code %d, want %d: %s%s", err, code, exits, stdout, stderr)
	}
	targets = make(map[string]Planned)
	for _, p := range document.Targets {
		targets[p.Target] = p
	}
	for _, o := range document.Optional {
		optional = append(optional, o.Resource)
	}
	return targets, optional
}

const rbacVersion = "rbac.authorization.k8s.io/v1"

// MissingPermissions is what informd's log says of them.
const MissingPermissions = "permissions missing; apply the output of `informd rbac`"

// CheckAllowed holds the log to that nothing was forbidden.
func (d *Informd) CheckAllowed() {
	d.T.Helper()
	for line := range strings.Lines(d.Stderr.String()) {
		if strings.Contains(line, MissingPermissions) || strings.Contains(strings.ToLower(line), "forbidden") ||
			strings.Contains(line, "cannot be checked") || strings.Contains(line, "not checked") || strings.Contains(line, "not watchable") || strings.Contains(line, "cannot be watched") {
			d.T.Errorf("not everything was allowed: %s", line)
		}
	}
}

// Reload asks for a reload and returns the answer's status.
func (d *Informd) Reload() int {
	d.T.Helper()
	_, status := d.Ask(http.MethodPost, "/reload")
	return status
}

// Ask sends a request over the admin socket.
func (d *Informd) Ask(method, path string) (body []byte, status int) {
	d.T.Helper()
	request, err := http.NewRequestWithContext(d.T.Context(), method, "http://informd"+path, nil)
	Must(d.T, err)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.Socket())
	}
	client := &http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	response, err := client.Do(request)
	Must(d.T, err)
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	Must(d.T, err)
	return body, response.StatusCode
}
