package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// appender is a handler of an exec sink: it appends each event to a file, and notes its process.
const appender = `
import json, os, sys
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
with open(sys.argv[1] + ".pid", "w") as pid:
    pid.write(str(os.getpid()))
for line in sys.stdin:
    os.write(out, line.encode())
    print(json.loads(line)["id"], flush=True)
`

// TestHandlerKilled: a Python handler of an exec sink acknowledges every event, each object's in
// order, although it and informd are killed under load. No handler outlives an informd.
func TestHandlerKilled(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	script, out := filepath.Join(dir, "handler.py"), filepath.Join(dir, "handled")
	if err := os.WriteFile(script, []byte(appender), 0o600); err != nil {
		t.Fatal(err)
	}
	s := r.setup(logJournal + longHistory)
	s.sinks = fmt.Sprintf("- {name: handler, type: exec, command: [python3, %s, %s]}", script, out)
	d := newInformd(t, s)
	d.start()
	d.waitForSync(len(r.kinds))
	end := r.load()
	handlers := map[int]bool{}
	for i := range 9 {
		<-time.After(400 * time.Millisecond)
		pid := handler(t, out+".pid", handlers)
		if handlers[pid] = true; i%3 < 2 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			continue
		}
		d.kill()
		d.start()
	}
	end()
	var file eventFile
	handled := func() []record { return file.read(t, out) }
	eventually(t, "the handler has every event", func() bool { return complete(r.kinds, handled(), r.ledger) })
	events, repeats := once(t, handled())
	t.Logf("%d events, %d of them repeated, by %d handlers", len(events), repeats, len(handlers))
	for _, k := range r.kinds {
		t.Run(k.gvr.Resource, func(t *testing.T) { check(t, k, events, r.ledger, r.client, claim{}) })
	}
	handlers[handler(t, out+".pid", nil)] = true
	d.stop()
	for pid := range handlers {
		eventually(t, fmt.Sprintf("the end of handler %d", pid), func() bool {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // a zombie has ended
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || strings.Contains(string(stat), ") Z ")
		})
	}
}

// handler waits for a handler that is none of the earlier ones.
func handler(t *testing.T, path string, earlier map[int]bool) (pid int) {
	t.Helper()
	eventually(t, "a handler", func() bool {
		text, err := os.ReadFile(path)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil && !earlier[pid]
	})
	return pid
}
