package exec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// killGrace is how long a killed process may take to be gone. Longer takes only one that
	// hangs in the kernel.
	killGrace = 2 * time.Second
	// outputGrace is how long informd reads the output of a process that has ended: one that has left
	// its group may hold the other end open.
	outputGrace = time.Second
	// maxLine is the most that is read of a line: an id with the longest names fits.
	maxLine = 16 << 10
)

// process is a running program, the leader of a process group of its own.
type process struct {
	stdin   *os.File // the end of the program, to see what it has left unread
	in, out *os.File // the ends of informd
	lines   *bufio.Reader
	// kill ends the process and its group, and every read and write of informd on its files. It
	// does not wait. The first call has the reason, which killed returns from then on.
	kill   context.CancelCauseFunc
	ending <-chan struct{} // closed by kill
	killed func() error
	// done is closed when the process and its group have ended and the log has what they
	// printed. State and unread, in bytes, are valid from then on.
	done   chan struct{}
	state  *os.ProcessState
	unread int
}

// start starts the program, and the goroutine that waits for its end. With ack: exit its standard
// output goes to the log.
func (s *programs) start() (*process, error) {
	ctx, kill := context.WithCancelCause(context.Background())
	stdin, in, err0 := os.Pipe()
	out, stdout, err1 := os.Pipe()
	p := &process{
		stdin: stdin, in: in, out: out, lines: bufio.NewReaderSize(out, maxLine), done: make(chan struct{}),
		kill: kill, ending: ctx.Done(), killed: func() error { return context.Cause(ctx) },
	}
	context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
	logged := &output{log: s.log}
	cmd := osexec.CommandContext(ctx, s.config.Command[0], s.config.Command[1:]...) //nolint:gosec // the command of the config is the point
	cmd.Env, cmd.SysProcAttr, cmd.WaitDelay = s.env, attributes(), outputGrace
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, logged
	if s.config.Ack == Exit {
		cmd.Stdout = logged
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	started := make(chan error)
	go func() {
		// The kernel takes the end of the thread that started a process for the end of informd.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := errors.Join(err0, err1)
		if err == nil {
			err = cmd.Start()
		}
		if started <- err; err == nil {
			p.outlive(cmd)
		}
	}()
	err := <-started
	_ = stdout.Close() // a missing file says so
	if err != nil {
		kill(nil)
		_ = stdin.Close()
		return nil, fmt.Errorf("start the program: %w", err)
	}
	return p, nil
}

// outlive waits for the end of the process, and ends what is left of its group.
func (p *process) outlive(cmd *osexec.Cmd) {
	defer close(p.done)
	group := -cmd.Process.Pid
	p.state, _ = cmd.Process.Wait()
	_ = syscall.Kill(group, syscall.SIGKILL) // it may be empty
	_ = cmd.Wait()                           // for the rest of what they have printed
	// The first process of a container inherits the rest of the group.
	for err := error(nil); err == nil || errors.Is(err, syscall.EINTR); {
		_, err = syscall.Wait4(group, nil, 0, nil)
	}
	_, _ = cmd.Stderr.Write([]byte{'\n'}) // of a last line without one
	_ = p.in.Close()
	unread, _ := io.Copy(io.Discard, p.stdin)
	p.unread = int(unread)
	_ = p.stdin.Close()
}

// next returns the next line of the standard output. Whole is false for the beginning of a line
// that is too long, or that lacks its end.
func (p *process) next() (line string, whole bool, err error) {
	text, err := p.lines.ReadSlice('\n')
	line, whole = strings.TrimSpace(string(text)), err == nil
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = p.lines.ReadSlice('\n')
	}
	return line, whole, err
}

// ended waits for the end of the process. It reports false if the process is still there some
// time after it was killed.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	case <-p.ending:
	}
	select {
	case <-p.done:
		return true
	case <-time.After(killGrace):
		return false
	}
}
