package event

import (
	"strconv"
	"strings"
)

// appendEpoch ends an id with the epoch: after a rollback of etcd the same
// revision number names another state.
func appendEpoch(b []byte, epoch uint64) []byte {
	if epoch == 0 {
		return b
	}
	return strconv.AppendUint(append(b, ":e"...), epoch, 10)
}

// Epoch returns the epoch that an id ends with, 0 if it ends with none.
func Epoch(id string) uint64 {
	digits, ok := strings.CutPrefix(id[strings.LastIndexByte(id, ':')+1:], "e")
	if !ok {
		return 0
	}
	epoch, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return epoch
}
