package kafka_test

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the user id of a file's owner, or -1.
func ownerOf(info fs.FileInfo) int {
	if status, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(status.Uid)
	}
	return -1
}
