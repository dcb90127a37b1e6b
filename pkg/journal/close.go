package journal

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Close closes the journal, and saves the cursors. Blocked calls return ErrClosed. If the disk does not answer within 20 seconds, it
// gives up, and the next start finds a log without an end.
func (j *Journal) Close() error {
	closed := make(chan error, 1)
	go func() { closed <- j.close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(j.config.patience / 3):
		return fmt.Errorf("close the journal: the file system of journal.dir %s does not answer", j.config.Dir)
	}
}

func (j *Journal) close() error {
	if errors.Is(j.log.Monitor.Failure(), ErrClosed) {
		return ErrClosed
	}
	for _, c := range j.open() {
		_ = c.Close()
	}
	if j.stop != nil {
		j.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.config.patience/6)
	defer cancel()
	err := j.log.Close(ctx)
	j.done.Wait()
	if j.dir != nil {
		err = errors.Join(err, j.dir.Close())
	}
	return err
}
