package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		1900 * time.Millisecond: "",
		3500 * time.Millisecond: "\r\x1b[Kverify ... 2s\r\x1b[Kverify ... 3s\r\x1b[K",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			done := showProgress(&out, "verify")
			<-time.After(wait)
			done()
			if out.String() != want {
				t.Errorf("after %s: %q, want %q", wait, out.String(), want)
			}
		})
	}
}
