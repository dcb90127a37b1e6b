package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Limited is an informd with a sink of every type.
type Limited struct {
	*Informd
	Endpoints map[string]*Endpoint
	Hook      *Endpoint
	Dead      map[string][]Letter // by sink; the source is one
}

// StartLimited starts an informd with a sink of every type.
func StartLimited(t *testing.T, kubeconfig, server, resources string, batch int) *Limited {
	t.Helper()
	d := &Limited{Hook: &Endpoint{}, Endpoints: make(map[string]*Endpoint)}
	for _, sink := range []string{"all", "screen", "bus", "core", "headers", "log"} {
		d.Endpoints[sink] = &Endpoint{}
	}
	d.Endpoints["hook"] = d.Hook
	broker := startBroker(t, func(key string, headers map[string][]byte, value []byte) {
		if value == nil {
			return // a tombstone
		}
		a, mistakes := fromAttributes(func(name string) string { return string(headers["ce_"+name]) }, value)
		if want := "e2e/" + string(headers["ce_subject"]); key != want {
			mistakes = append(mistakes, fmt.Sprintf("key %.200q, want %.200q", key, want))
		}
		d.Endpoints["log"].add(a, mistakes...)
	})
	d.Endpoints["core"].subscribe(t, server, "core")
	hook := serveHTTP(t, func(_ http.Header, body []byte) { d.Hook.addBody(body) })
	headers := serveHTTP(t, func(header http.Header, body []byte) {
		a, mistakes := fromHeaders(header, header.Get, body)
		d.Endpoints["headers"].add(a, mistakes...)
	})
	secret := WriteFile(t, "secret", "whsec_bWFkZSBmb3IgdGhlIHRlc3RzIG9mIGluZm9ybWQ=\n")
	d.Informd = NewInformd(t, Setup{Kubeconfig: kubeconfig, Resources: resources, Journal: LogJournal, Sinks: fmt.Sprintf(`
			- {name: screen, type: stdout}
			- {name: bus, type: nats, servers: [%[1]q], subjectPrefix: bus, stream: BUS, create: {historyPerObject: 0}}
			- {name: core, type: nats, jetstream: false, servers: [%[1]q], subjectPrefix: core}
			- {name: hook, type: webhook, url: %[2]q, batch: %[6]d, timeout: 60s}
			- {name: headers, type: webhook, url: %[3]q, format: binary, signing: {keyFile: %[4]q}, timeout: 60s}
			- {name: log, type: kafka, servers: [%[5]q], topic: "e2e.{group}.{resource}", create: {partitions: 1}}`,
		server, hook, headers, secret, broker, batch)})
	d.Start()
	return d
}

// Gather reads what the sinks have that keep it themselves, and the dead letters.
func (d *Limited) Gather(t *testing.T, server string) {
	t.Helper()
	d.Dead = make(map[string][]Letter)
	for line := range strings.Lines(d.Must("deadletters", "list", "-o", "json")) {
		var l Letter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %.300s", err, line)
		}
		d.Dead[l.Sink] = append(d.Dead[l.Sink], l)
	}
	d.Endpoints["all"].readLines(t, d.EventsPath())
	d.Endpoints["screen"].readFrom(t, strings.NewReader(d.Stdout.String()))
	for _, m := range readMessages(t, server, "BUS") {
		d.Endpoints["bus"].addMessage(m.Subject(), m.Headers(), m.Data())
	}
}
