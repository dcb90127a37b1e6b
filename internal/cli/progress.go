package cli

import (
	"fmt"
	"io"
	"time"
)

// showProgress shows on a terminal what a command waits for, and for how many seconds, until done is
// called. Done removes the line. A wait of less than 2 seconds shows nothing.
func showProgress(out io.Writer, what string) (done func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		began, shown := time.Now(), false
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-end:
				if shown {
					fmt.Fprint(out, "\r\x1b[K")
				}
				return
			case now := <-tick.C:
				if waited := now.Sub(began); waited >= 2*time.Second {
					shown = true
					fmt.Fprintf(out, "\r\x1b[K%s ... %s", what, waited.Truncate(time.Second))
				}
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
