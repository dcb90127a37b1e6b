package sinks_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// TestErrorsOfTheServerAreKnown: the sink classifies each error that nats-server documents, in a golden
// file that its unit test reads. A server with other errors has to be looked at: what a new one means for
// a message goes to the end of its line.
func TestErrorsOfTheServerAreKnown(t *testing.T) {
	var want []string
	for _, e := range server.ApiErrors {
		want = append(want, fmt.Sprintf("%d %d %s", e.Code, e.ErrCode, e.Description))
	}
	const golden = "../../pkg/sink/nats/testdata/errors.golden"
	content, err := os.ReadFile(golden)
	must(t, err)
	var got []string
	for line := range strings.Lines(string(content)) {
		got = append(got, line[:strings.LastIndex(line, ": ")])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s has the errors\n%s\nand the server\n%s", golden, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
