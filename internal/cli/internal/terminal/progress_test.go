package terminal_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/internal/cli/internal/terminal"
)

func TestProgress(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		1900 * time.Millisecond: "",
		3500 * time.Millisecond: "\r\x1b[Kverify ... 2s\r\x1b[Kverify ... 3s\r\x1b[K",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			done := terminal.Progress(&out, "verify")
			<-time.After(wait)
			done()
			if out.String() != want {
				t.Errorf("after %s: %q, want %q", wait, out.String(), want)
			}
		})
	}
}
