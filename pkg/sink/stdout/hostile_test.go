package stdout_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/stdout"
)

// TestTerminalObeysNothing: characters that a terminal obeys are escaped in JSON for one,
// and are as they were for a pipe.
func TestTerminalObeysNothing(t *testing.T) {
	const hostile = "\u009b31m\u202e\u2066"
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	sinktest.Must(t, err)
	defer device.Close() //nolint:errcheck // nothing is written
	e := sinktest.Events(1)[0]
	e.Name = "n" + hostile
	e.Data = event.CloseData(append(event.OpenData(nil), `{"metadata":{"name":"n`+hostile+`"}}`...))
	for _, format := range []stdout.Format{stdout.CloudEvents, stdout.Raw} {
		c := &stdout.Config{Format: format}
		env := sinktest.Env(t)
		plain, err := c.Render(env, &e)
		sinktest.Must(t, err)
		env.Stdout = device
		shown, err := c.Render(env, &e)
		sinktest.Must(t, err)
		if !strings.Contains(string(plain.Body), hostile) {
			t.Errorf("%s: a pipe gets %s", format, plain.Body)
		}
		if strings.ContainsAny(string(shown.Body), "\u009b\u202e\u2066") || !bytes.Contains(shown.Body, []byte(`n\u009b31m\u202e\u2066"`)) {
			t.Errorf("%s: a terminal gets %q", format, shown.Body)
		}
	}
}
