package postgres

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that the servers run as; nil is that of this process.
type account struct{ uid, gid int }

// unprivileged returns another user if this one is root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // this user will do
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		return &account{uid, gid}, errors.Join(uidErr, gidErr)
	}
	return nil, errors.New("there is neither a user postgres nor a user nobody")
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own gives a file to the user.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}
