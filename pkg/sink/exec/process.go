package exec

import (
	"bufio"
	"errors"
	"os"
	osexec "os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// killGrace is how long a killed process may take to be gone. Longer takes only one that
	// hangs in the kernel.
	killGrace = 2 * time.Second
	// maxLine is the most that is read of a line: an id with the longest names fits.
	maxLine = 16 << 10
)

// process is a running program, the leader of a process group of its own.
type process struct {
	in, out, err *os.File      // the ends of informd
	lines        lineReader    // of out
	timer        *time.Timer   // kills the process
	killed       chan struct{} // closed by the first kill
	reason       error         // of the first kill, valid once killed is closed
	// done is closed when the process and its group have ended and the log has what they
	// printed. State is valid from then on.
	done  chan struct{}
	state *os.ProcessState

	mu  sync.Mutex
	pid int // 0 once another process may have it
}

// start starts the program. With ack: exit its standard output goes to the log.
func (s *programs) start() (*process, error) {
	stdin, in, err0 := os.Pipe()
	out, stdout, err1 := os.Pipe()
	output, stderr, err2 := os.Pipe()
	p := &process{in: in, out: out, err: output, done: make(chan struct{}), killed: make(chan struct{})}
	p.lines.Reader = bufio.NewReaderSize(out, maxLine)
	cmd := &osexec.Cmd{
		Path: s.path, Args: s.config.Command, Env: s.env, SysProcAttr: attributes(),
		Stdin: stdin, Stdout: stdout, Stderr: stderr,
	}
	if s.config.Ack == Exit {
		cmd.Stdout = stderr
	}
	err := errors.Join(err0, err1, err2)
	if err == nil {
		err = p.run(cmd, s.log)
	}
	for _, theirs := range []*os.File{stdin, stdout, stderr} {
		_ = theirs.Close() // a missing one says so
	}
	if err != nil {
		for _, ours := range []*os.File{in, out, output} {
			_ = ours.Close()
		}
		return nil, err
	}
	return p, nil
}

// run starts the process, and the goroutine that waits for its end.
func (p *process) run(cmd *osexec.Cmd, log *lineLog) error {
	started := make(chan error)
	go func() {
		// The kernel takes the end of the thread that started a process for the end of informd.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.outlive(cmd, log)
		}
	}()
	return <-started
}

// outlive waits for the end of the process, and ends what is left of its group.
func (p *process) outlive(cmd *osexec.Cmd, log *lineLog) {
	defer close(p.done)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		log.copy(p.err)
	}()
	awaitEnd(cmd)
	p.mu.Lock()
	group := -p.pid
	_ = syscall.Kill(group, syscall.SIGKILL) // it may be empty
	_ = cmd.Wait()                           // the state says it
	p.state, p.pid = cmd.ProcessState, 0
	p.mu.Unlock()
	// The first process of a container inherits the rest of the group.
	for err := error(nil); err == nil || errors.Is(err, syscall.EINTR); {
		_, err = syscall.Wait4(group, nil, 0, nil)
	}
	// A process that has left the group may hold the other end open.
	_ = p.err.SetReadDeadline(time.Now().Add(outputGrace))
	<-copied
	_ = p.err.Close()
}

// ended waits for the end of the process. It reports false if the process is still there some
// time after it was killed.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	case <-p.killed:
	}
	select {
	case <-p.done:
		return true
	case <-time.After(killGrace):
		return false
	}
}

// kill ends the process and its group, and every read and write of informd on its files. It does
// not wait. The first call has the reason.
func (p *process) kill(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.killed:
		return
	default:
	}
	p.reason = reason
	close(p.killed)
	if p.pid != 0 {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	_ = p.in.Close()
	_ = p.out.Close()
}
