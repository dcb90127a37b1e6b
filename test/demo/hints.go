package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// hints are for a second terminal. Events follow them on the same screen, so the demo repeats
// the short form, and a file has the rest.
type hints struct {
	// file has the environment of the commands, for the shell of the second terminal.
	file string
	page string // with the token for objects
}

// commands work in a shell that has read the file.
func commands() []string {
	return []string{
		"bin/informd status    # or plan, verify, rewind, ...",
		"bin/informd tail pods",
		fmt.Sprintf("bin/informd history deployments.apps/%s/%s    # or get, diff", namespace, shop),
		fmt.Sprintf("bin/informd undelete pods/%s/web-1    # the demo deletes it after 10 seconds", namespace),
		fmt.Sprintf("kubectl --namespace %s get pods", namespace),
		`nats --server "$NATS_URL" sub 'k8s.demo.>'    # the same events on NATS`,
		`go run ./examples/materialised-view -url "$NATS_URL"`,
	}
}

// newHints writes the file beside the config of the daemon, which removes both.
func newHints(d *daemon, kubeconfig, natsURL string) (hints, error) {
	var text strings.Builder
	for _, v := range [][2]string{{"KUBECONFIG", kubeconfig}, {"INFORMD_CONFIG", d.config}, {"NATS_URL", natsURL}} {
		fmt.Fprintf(&text, "export %s=%s\n", v[0], quoted(v[1]))
	}
	text.WriteString("\n# Commands for this environment:\n")
	for _, c := range commands() {
		fmt.Fprintf(&text, "#   %s\n", c)
	}
	h := hints{file: filepath.Join(d.dir, "env"), page: fmt.Sprintf("http://%s/#token=%s", d.admin, d.token)}
	return h, os.WriteFile(h.file, []byte(text.String()), 0o600)
}

// quoted returns a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// show prints all hints.
func (h hints) show() {
	say("informd runs. In another terminal run:")
	say("    . %s", h.file)
	for _, c := range commands() {
		say("    %s", c)
	}
	say("Look at it in a browser, with objects: %s", h.page)
	say("stop: Ctrl-C")
}

// repeat prints the short form on a schedule, until ctx ends.
func (h hints) repeat(ctx context.Context, every time.Duration) {
	again := time.Tick(every) // nil for 0: never
	for {
		select {
		case <-again:
			say("in another terminal: . %s (lists the commands); in a browser: %s", h.file, h.page)
		case <-ctx.Done():
			return
		}
	}
}
