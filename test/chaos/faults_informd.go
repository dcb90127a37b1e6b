package chaos

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func (a *attack) killAll() error {
	var errs []error
	for _, d := range a.informds {
		errs = append(errs, d.Kill())
	}
	return errors.Join(errs...)
}

func (a *attack) startAll() error {
	var errs []error
	for _, d := range a.informds {
		errs = append(errs, d.Start(a.ctx))
	}
	return errors.Join(errs...)
}

func killInformd(a *attack) error {
	if err := a.killAll(); err != nil {
		return err
	}
	a.hold(0, 3*time.Second)
	return a.startAll()
}

// stopInformd ends it as a rollout does. What it has not delivered by the end of
// its grace period is an error of the process, not of this fault.
func stopInformd(a *attack) error {
	for _, d := range a.informds {
		_ = d.Stop()
	}
	a.hold(0, 3*time.Second)
	return a.startAll()
}

// downOverCompaction takes the history away that informd would resume from.
func downOverCompaction(a *attack) error {
	if err := a.killAll(); err != nil {
		return err
	}
	a.hold(time.Second, 5*time.Second)
	err := a.loseHistory()
	return errors.Join(err, a.startAll())
}

// downTwoMinutes has the API servers restarted in between, one after the other.
func downTwoMinutes(a *attack) error {
	if err := a.killAll(); err != nil {
		return err
	}
	a.hold(time.Minute, time.Minute)
	for range a.servers {
		if err := killAPIServer(a); err != nil {
			return err
		}
	}
	a.hold(time.Minute, time.Minute)
	return a.startAll()
}

// loseHistory compacts etcd and empties the API servers' memories.
func (a *attack) loseHistory() error {
	if err := a.killAPIServers(); err != nil {
		return err
	}
	return errors.Join(compact(a), a.startAPIServers())
}

// killInReconcile kills informd again and again while it makes up for a loss.
func killInReconcile(a *attack) error {
	if err := downOverCompaction(a); err != nil {
		return err
	}
	for range 2 {
		a.hold(50*time.Millisecond, 1500*time.Millisecond)
		if err := a.killAll(); err != nil {
			return err
		}
		if err := a.startAll(); err != nil {
			return err
		}
	}
	return nil
}

func (a *attack) excuseAll() (end func()) {
	var ends []func()
	for _, d := range a.informds {
		ends = append(ends, d.Excuse())
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

func (a *attack) oneDisk() *Disk { return a.disks[a.random.IntN(len(a.disks))] }

func fillDisk(a *attack) error {
	defer a.excuseAll()()
	disk := a.oneDisk()
	if err := disk.Fill(); err != nil {
		return err
	}
	a.hold(time.Second, 8*time.Second)
	return disk.Heal()
}

func protectDisk(a *attack) error {
	defer a.excuseAll()()
	if err := a.killAll(); err != nil {
		return err
	}
	disk := a.oneDisk()
	if err := a.until(func(context.Context) error { return disk.Protect() }); err != nil { // the consumer may have the file open
		return errors.Join(err, a.startAll())
	}
	if err := a.startAll(); err != nil {
		return err
	}
	a.hold(2*time.Second, 6*time.Second)
	return disk.Heal()
}

// damage does something to one of the journal's files while informd is down: to the newest, the
// largest, or any.
func damage(a *attack, spoil func(*attack, string) error) error {
	if err := a.killAll(); err != nil {
		return err
	}
	files, err := filesBelow(a.sides[a.random.IntN(len(a.sides))].dir)
	if err == nil && len(files) > 0 {
		newest := func(x, y stateFile) int { return x.ModTime().Compare(y.ModTime()) }
		largest := func(x, y stateFile) int { return cmp.Compare(x.Size(), y.Size()) }
		file := files[a.random.IntN(len(files))]
		switch a.random.IntN(3) {
		case 0:
			file = slices.MaxFunc(files, newest)
		case 1:
			file = slices.MaxFunc(files, largest)
		}
		err = spoil(a, file.path)
	}
	return errors.Join(err, a.startAll())
}

// stateFile is a file of informd's state.
type stateFile struct {
	fs.FileInfo

	path string
}

func filesBelow(dir string) (files []stateFile, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) == ".ndjson" {
			return err
		}
		info, err := entry.Info()
		files = append(files, stateFile{info, path})
		return err
	})
	return files, err
}

func truncate(a *attack, path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return err
	}
	most := info.Size()
	if a.random.IntN(2) == 0 {
		most = min(most, 64<<10)
	}
	return os.Truncate(path, info.Size()-1-a.random.Int64N(most))
}

func changeBytes(a *attack, path string) error {
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		return err
	}
	for range []int{1, 20}[a.random.IntN(2)] {
		content[a.random.IntN(len(content))] ^= byte(1 + a.random.IntN(255))
	}
	return os.WriteFile(path, content, 0o600)
}

func remove(_ *attack, path string) error { return os.Remove(path) }
