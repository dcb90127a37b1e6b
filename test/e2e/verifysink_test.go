package e2e_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestVerifySink: a comparison of what a stream holds with what was announced finds an
// object that is missing, and one that does not exist; a re-snapshot brings back the first.
func TestVerifySink(t *testing.T) {
	r := newRig(t)
	d := newInformd(t, r.setup(logJournal))
	d.start()
	d.waitForSync(len(r.kinds))
	end := r.load()
	eventually(t, "a hundred events", func() bool { return len(d.records()) > 100 })
	d.must("verify", "--sink", "bus") // amid changes
	end()
	if err := newWriter(r.client, configMapKind(), newLedger(), 1).create(t.Context(), "precious"); err != nil {
		t.Fatal(err)
	}
	// Between resources there is no order: changes of others may follow it.
	eventually(t, "the last change", func() bool {
		return slices.ContainsFunc(d.records(), func(r record) bool { return r.Name == "precious" })
	})
	d.waitForLive(len(r.kinds))
	if output, code := d.command("verify", "--sink", "all"); code != 1 || !strings.Contains(output, "file") {
		t.Errorf("of a file: exit code %d\n%s", code, output)
	}

	conn, err := nats.Connect(r.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), busStream)
	if err != nil {
		t.Fatal(err)
	}
	const root = "events.e2e.core.configmaps.default."
	last, err := stream.GetLastMsgForSubject(t.Context(), root+"precious")
	if err != nil {
		t.Fatal(err)
	}
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
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(root+"precious")); err != nil {
		t.Fatal(err)
	}
	output, code := d.command("verify", "--sink", "bus")
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
	output, _ = d.command("verify", "--sink", "bus", "-o", "json")
	if want := fmt.Sprintf(`"resourceVersion": %q`, rv); strings.Count(output, want) != 2 {
		t.Errorf("want %s twice in\n%s", want, output)
	}
	d.must("resnapshot", "core/configmaps", "--sink", "bus")
	output, code = d.command("verify", "--sink", "bus")
	if code != 1 || !strings.Contains(output, "ghost") || strings.Contains(output, "precious") {
		t.Errorf("after the re-snapshot: exit code %d\n%s", code, output)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(root+"ghost")); err != nil {
		t.Fatal(err)
	}
	d.must("verify", "--sink", "bus")
	d.must("verify")
}
