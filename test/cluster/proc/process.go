package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout bounds a start whose context has no deadline. A start takes
	// seconds; a machine that is compiling at the same time takes much longer.
	startTimeout = 2 * time.Minute
	// attemptTimeout bounds one call of Spec.Ready.
	attemptTimeout = 3 * time.Second
	readyInterval  = 30 * time.Millisecond
	defaultGrace   = 30 * time.Second
)

// ErrNotRunning is returned by what needs a running process.
var ErrNotRunning = errors.New("process is not running")

// Spec says what to run and how to tell that it serves.
type Spec struct {
	Name string   // in errors, such as "kube-apiserver 0"
	Path string   // the binary
	Args []string // without the binary's name
	Log  string   // file that standard output and error are appended to
	// User runs the process, if this one may change the user. Default: the user of this process.
	User *syscall.Credential
	// Ready returns nil once the server serves. It is called again and again
	// during Start, one call at a time, each bounded by ctx.
	Ready func(ctx context.Context) error
	Grace time.Duration // how long Stop waits before it kills; default 30 s
}

// Process is a server that can be started, ended and started again. All methods
// are safe for concurrent use.
type Process struct {
	spec Spec

	mu  sync.Mutex // guards cur, and orders Start, Stop, Kill, Freeze and Thaw
	cur *run
}

// run is one operating system process, from its start to its end.
type run struct {
	process *os.Process
	done    chan struct{} // closed once the process is reaped
	err     error         // how it ended; readable after done
}

// New returns the process described by spec, not started.
func New(spec Spec) *Process {
	if spec.Grace == 0 {
		spec.Grace = defaultGrace
	}
	return &Process{spec: spec}
}

// Name returns the name that errors use.
func (p *Process) Name() string { return p.spec.Name }

// PID returns the process id, or 0 if the process is not running.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return 0
	}
	return p.cur.process.Pid
}

// Running says whether the process exists. A frozen process does.
func (p *Process) Running() bool { return p.PID() != 0 }

// Exited returns a channel that is closed once the process, as started last, has
// ended for whatever reason. It is nil before the first Start.
func (p *Process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil {
		return nil
	}
	return p.cur.done
}

// LogTail returns the end of the log, over all starts.
func (p *Process) LogTail() string { return tail(p.spec.Log) }

// Start runs the process and blocks until it is ready. ctx bounds the start only,
// not the life of the process; without a deadline it is two minutes. After an
// error nothing runs, and the error carries the end of the log. Starting a
// process that runs is an error.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningLocked() {
		return fmt.Errorf("start %s: already running as process %d", p.spec.Name, p.cur.process.Pid)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	cur, err := launch(context.WithoutCancel(ctx), p.spec)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.spec.Name, err)
	}
	p.cur = cur
	if err := p.waitReadyLocked(ctx); err != nil {
		_ = p.killLocked()
		return fmt.Errorf("start %s: %w\n%s", p.spec.Name, err, p.LogTail())
	}
	return nil
}

// Stop asks the process to end (SIGTERM) and blocks until it has. A frozen
// process is thawed first. A process that outlives the grace period is killed,
// and that is an error, as is an exit status other than 0; both carry the end of
// the log. Stopping a process that is not running does nothing.
func (p *Process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return nil
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := p.signalLocked(sig); err != nil && !errors.Is(err, ErrNotRunning) {
			return fmt.Errorf("stop %s: %w", p.spec.Name, err)
		}
	}
	timer := time.NewTimer(p.spec.Grace)
	defer timer.Stop()
	select {
	case <-p.cur.done:
		if p.cur.err != nil {
			return fmt.Errorf("stop %s: %w\n%s", p.spec.Name, p.cur.err, p.LogTail())
		}
		return nil
	case <-timer.C:
		_ = p.killLocked()
		return fmt.Errorf("stop %s: killed, as it still ran after %s\n%s", p.spec.Name, p.spec.Grace, p.LogTail())
	}
}

// Kill ends the process at once (SIGKILL) and blocks until it is gone. Killing a
// process that is not running does nothing.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.killLocked(); err != nil {
		return fmt.Errorf("kill %s: %w", p.spec.Name, err)
	}
	return nil
}

// Freeze suspends the process (SIGSTOP) and, on Linux, blocks until all its
// threads stand still. Its connections stay open and silent.
func (p *Process) Freeze() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.signalLocked(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze %s: %w", p.spec.Name, err)
	}
	if err := waitStopped(p.cur.process.Pid); err != nil {
		return fmt.Errorf("freeze %s: %w", p.spec.Name, err)
	}
	return nil
}

// Thaw lets a frozen process go on (SIGCONT). It does nothing to one that is not
// frozen.
func (p *Process) Thaw() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.signalLocked(syscall.SIGCONT); err != nil {
		return fmt.Errorf("thaw %s: %w", p.spec.Name, err)
	}
	return nil
}

func (p *Process) runningLocked() bool {
	if p.cur == nil {
		return false
	}
	select {
	case <-p.cur.done:
		return false
	default:
		return true
	}
}

func (p *Process) signalLocked(sig os.Signal) error {
	if !p.runningLocked() {
		return ErrNotRunning
	}
	err := p.cur.process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return ErrNotRunning
	}
	return err
}

func (p *Process) killLocked() error {
	err := p.signalLocked(syscall.SIGKILL)
	if err != nil && !errors.Is(err, ErrNotRunning) {
		return err
	}
	if p.cur != nil {
		<-p.cur.done
	}
	return nil
}

// waitReadyLocked polls Spec.Ready until it succeeds, the process ends or ctx does.
func (p *Process) waitReadyLocked(ctx context.Context) error {
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for {
		err := p.attempt(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.cur.done:
			return fmt.Errorf("ended before it was ready: %w", exitError(p.cur.err))
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func (p *Process) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return p.spec.Ready(ctx)
}

// launch starts the process and a goroutine that lives as long as it does. The
// end of ctx kills the process.
func launch(ctx context.Context, spec Spec) (*run, error) {
	log, err := os.OpenFile(spec.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, spec.Path, spec.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = TiedToParent()
	cmd.SysProcAttr.Credential = spec.User

	cur := &run{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // as TiedToParent asks
		defer runtime.UnlockOSThread()
		defer close(cur.done)
		err := cmd.Start()
		_ = log.Close() // the child has its own copy
		cur.process = cmd.Process
		started <- err
		if err == nil {
			cur.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return cur, nil
}

func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
