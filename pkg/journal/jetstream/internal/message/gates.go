package message

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/nats-io/nats.go"
)

// setNumbers sets a header to numbers of 8 bytes each, in base64.
func setNumbers(set func(name, value string), name string, all []uint64) {
	if len(all) == 0 {
		return
	}
	raw := make([]byte, 0, 8*len(all))
	for _, n := range all {
		raw = binary.BigEndian.AppendUint64(raw, n)
	}
	set(name, base64.RawURLEncoding.EncodeToString(raw))
}

// numbers reads what setNumbers has set. What cannot be read is not known: nil.
func numbers(h nats.Header, name string) []uint64 {
	if len(h[name]) == 0 {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(h[name][0])
	if err != nil || len(raw)%8 != 0 {
		return nil
	}
	all := make([]uint64, 0, len(raw)/8)
	for ; len(raw) > 0; raw = raw[8:] {
		all = append(all, binary.BigEndian.Uint64(raw))
	}
	return all
}
