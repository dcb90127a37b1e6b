package delivery_test

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

	"github.com/informd/informd/test/e2e"
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
	r := e2e.NewRig(t)
	dir := t.TempDir()
	script, out := filepath.Join(dir, "handler.py"), filepath.Join(dir, "handled")
	e2e.Must(t, os.WriteFile(script, []byte(appender), 0o600))
	s := r.Setup(e2e.LogJournal + e2e.LongHistory)
	s.Sinks = fmt.Sprintf("- {name: handler, type: exec, command: [python3, %s, %s]}", script, out)
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForSync(len(r.Kinds))
	end := r.Load()
	handlers := map[int]bool{}
	for i := range 9 {
		<-time.After(400 * time.Millisecond)
		pid := handler(t, out+".pid", handlers)
		if handlers[pid] = true; i%3 < 2 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			continue
		}
		d.Kill()
		d.Start()
	}
	end()
	var file e2e.EventFile
	handled := func() []e2e.Record { return file.Read(t, out) }
	e2e.Eventually(t, "the handler has every event", func() bool { return e2e.Complete(r.Kinds, handled(), r.Ledger) })
	events, repeats := e2e.Once(t, handled())
	t.Logf("%d events, %d of them repeated, by %d handlers", len(events), repeats, len(handlers))
	for _, k := range r.Kinds {
		t.Run(k.GVR.Resource, func(t *testing.T) { e2e.Check(t, k, events, r.Ledger, r.Client, e2e.Claim{}) })
	}
	handlers[handler(t, out+".pid", nil)] = true
	d.Stop()
	for pid := range handlers {
		e2e.Eventually(t, fmt.Sprintf("the end of handler %d", pid), func() bool {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // a zombie has ended
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || strings.Contains(string(stat), ") Z ")
		})
	}
}

// handler waits for a handler that is none of the earlier ones.
func handler(t *testing.T, path string, earlier map[int]bool) (pid int) {
	t.Helper()
	e2e.Eventually(t, "a handler", func() bool {
		text, err := os.ReadFile(path)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil && !earlier[pid]
	})
	return pid
}
