package delivery_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/test/e2e"
)

// TestVerifySink: a comparison of what a stream holds with what was announced finds an
// object that is missing, and one that does not exist; a re-snapshot brings back the first.
func TestVerifySink(t *testing.T) {
	r := e2e.NewRig(t)
	d := e2e.NewInformd(t, r.Setup(e2e.LogJournal))
	d.Start()
	d.WaitForSync(len(r.Kinds))
	end := r.Load()
	e2e.Eventually(t, "a hundred events", func() bool { return len(d.Records()) > 100 })
	d.Must("verify", "--sink", "bus") // amid changes
	end()
	e2e.Must(t, e2e.NewWriter(r.Client, e2e.ConfigMapKind(), e2e.NewLedger(), 1).Create(t.Context(), "precious"))
	// Between resources there is no order: changes of others may follow it.
	e2e.Eventually(t, "the last change", func() bool {
		return slices.ContainsFunc(d.Records(), func(r e2e.Record) bool { return r.Name == "precious" })
	})
	d.WaitForLive(len(r.Kinds))
	if output, code := d.Command("verify", "--sink", "all"); code != 1 || !strings.Contains(output, "file") {
		t.Errorf("of a file: exit code %d\n%s", code, output)
	}

	conn, err := nats.Connect(r.Nats.URL())
	e2e.Must(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	e2e.Must(t, err)
	stream, err := js.Stream(t.Context(), e2e.BusStream)
	e2e.Must(t, err)
	const root = "events.e2e.core.configmaps.default."
	last, err := stream.GetLastMsgForSubject(t.Context(), root+"precious")
	e2e.Must(t, err)
	ghost := &nats.Msg{Subject: root + "ghost", Header: nats.Header{}, Data: last.Data}
	for name, values := range last.Header {
		if strings.HasPrefix(name, "ce-") {
			ghost.Header[name] = values
		}
	}
	ghost.Header["ce-name"], ghost.Header["ce-uid"] = []string{"ghost"}, []string{"nobody"}
	if _, err := js.PublishMsg(t.Context(), ghost); err != nil {
		t.Fatal(err)
	}
	e2e.Must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(root+"precious")))
	output, code := d.Command("verify", "--sink", "bus")
	for _, want := range []string{"core/configmaps/default/ghost", "it does not exist", "core/configmaps/default/precious", "does not hold it"} {
		if code != 1 || !strings.Contains(output, want) {
			t.Errorf("exit code %d, want 1 and %q in\n%s", code, want, output)
		}
	}
	precious := regexp.MustCompile(`(?m)^core/configmaps/default/precious +\S.* +none +(\S+)$`).FindStringSubmatch(output)
	uid, rv := last.Header.Get("ce-uid"), last.Header.Get("ce-resourceversion")
	if precious == nil || precious[1] != uid+":"+rv || !strings.Contains(output, "nobody:"+rv+" ") {
		t.Errorf("%v, want %s:%s announced, and nobody:%s in the sink, in\n%s", precious, uid, rv, rv, output)
	}
	output, _ = d.Command("verify", "--sink", "bus", "-o", "json")
	if want := fmt.Sprintf(`"resourceVersion": %q`, rv); strings.Count(output, want) != 2 {
		t.Errorf("want %s twice in\n%s", want, output)
	}
	d.Must("resnapshot", "core/configmaps", "--sink", "bus")
	output, code = d.Command("verify", "--sink", "bus")
	if code != 1 || !strings.Contains(output, "ghost") || strings.Contains(output, "precious") {
		t.Errorf("after the re-snapshot: exit code %d\n%s", code, output)
	}
	e2e.Must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(root+"ghost")))
	d.Must("verify", "--sink", "bus")
	d.Must("verify")
}
