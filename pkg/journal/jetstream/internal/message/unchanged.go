package message

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/nats-io/nats.go"
)

// numbersText returns numbers of 8 bytes each in base64.
func numbersText(all []uint64) string {
	raw := make([]byte, 0, 8*len(all))
	for _, n := range all {
		raw = binary.BigEndian.AppendUint64(raw, n)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// numbers reads a header that [numbersText] has made. What cannot be read is not known: nil.
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
