package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of CPU times in /proc.
const tick = 10 * time.Millisecond

// PID is the id of the server's first process, 0 while it is down.
func (s *Server) PID() int { return s.process.PID() }

// CPU is the CPU time of all processes that the server has or had, to 10 ms for each one.
func (s *Server) CPU() (total time.Duration, err error) {
	for range 10 {
		total, err = s.cpu()
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			break
		} // a process has ended meanwhile, and its time counts for the first one now
	}
	return total, err
}

func (s *Server) cpu() (time.Duration, error) {
	// utime, stime, cutime and cstime: the first process has waited for those that have ended.
	total, err := cpuOf(s.PID(), 4)
	if err != nil {
		return 0, err
	}
	for _, pid := range s.children() {
		one, err := cpuOf(pid, 2)
		if err != nil {
			return 0, err
		}
		total += one
	}
	return total, nil
}

// cpuOf adds up the first CPU times of /proc/<pid>/stat.
func cpuOf(pid, times int) (total time.Duration, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // a name may have spaces
	for _, field := range strings.Fields(rest)[11 : 11+times] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n) * tick
	}
	return total, nil
}

// Psql is psql, logged in to the server. It stops at the first error.
func (s *Server) Psql(ctx context.Context, args ...string) *exec.Cmd {
	login := []string{"-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", s.portNumber(), "-U", User, "-d", Database}
	cmd := exec.CommandContext(ctx, filepath.Join(s.binaries, "psql"), append(login, args...)...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+Password)
	return cmd
}
