package delivery_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestNonBlockingStdout: another process that shares informd's standard output makes the pipe
// non-blocking, and the reader is slow. It gets each event once.
func TestNonBlockingStdout(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	const objects = 120
	maps := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())).Resource(e2e.ConfigMapKind().GVR).Namespace("default")
	for i := range objects {
		e2e.CreateConfigMap(t, maps, fmt.Sprintf("large-%d", i), map[string]any{"text": strings.Repeat("x", 9<<10)})
	}
	var fds [2]int
	e2e.Must(t, unix.Pipe(fds[:]))
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	reader := os.NewFile(uintptr(fds[0]), "reader")
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}",
		Sinks: "- {name: out, type: stdout}",
	})
	d.Pipe = os.NewFile(uintptr(fds[1]), "stdout")
	d.Start()
	t.Cleanup(func() {
		d.Stop()
		if err := errors.Join(reader.Close(), d.Pipe.Close()); err != nil {
			t.Error(err)
		}
	})
	e2e.Eventually(t, "an answer", func() bool { _, err := d.Status(); return err == nil })
	e2e.Must(t, unix.SetNonblock(fds[1], true))
	d.WaitForSync(1) // in the file: the pipe has been full for a while

	seen := make(map[string]int)
	lines := bufio.NewReaderSize(reader, 2000)
	for op := ""; op != "synced"; {
		line, err := lines.ReadBytes('\n')
		var r e2e.Record
		if err = errors.Join(err, json.Unmarshal(line, &r)); err != nil {
			t.Fatalf("line %d: %v", len(seen), err)
		}
		op = r.Op
		if seen[r.ID]++; seen[r.ID] > 1 {
			t.Errorf("%s %s %s came %d times", r.ID, r.Op, r.Name, seen[r.ID])
		}
	}
	if want := e2e.Count(d.Records(), "snapshot") + 2; len(seen) != want || want < objects {
		t.Errorf("%d events, want %d", len(seen), want)
	}
}
