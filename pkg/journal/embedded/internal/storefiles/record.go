package storefiles

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
)

// The format of a block file, as the server's file store has it: records without
// padding, each with
//
//	length    uint32  of all of it; the highest bit says that there are headers
//	sequence  uint64  with flags in the two highest bits
//	time      int64   nanoseconds
//	subject   uint16  its length
//	subject, headers (with their length in 4 bytes, if any), message
//	checksum  8 bytes HighwayHash of all but the length fields
const (
	recordHeader  = 22
	checksumSize  = 8
	emptyRecord   = recordHeader + checksumSize
	longestRecord = 32 << 20 // the server refuses longer ones

	headersFlag   = uint32(1) << 31
	erasedFlag    = uint64(1) << 63 // the message was deleted
	tombstoneFlag = uint64(1) << 62 // a note that the message of this sequence, elsewhere, was deleted
)

// record is one record of a block, in the block's own memory.
type record struct {
	raw      []byte
	sequence uint64 // with its flags
}

// message reports whether the record takes a place in the stream: a message or
// one that was erased, but not a tombstone.
func (r record) message() bool { return r.sequence&tombstoneFlag == 0 }

// erased reports whether nothing but the message's place is left.
func (r record) erased() bool { return r.sequence&erasedFlag != 0 }

// subject is that of a message that is not erased.
func (r record) subject() []byte {
	return r.raw[recordHeader : recordHeader+int(binary.LittleEndian.Uint16(r.raw[20:]))]
}

func (r record) number() uint64 { return r.sequence &^ (erasedFlag | tombstoneFlag) }

// BlockReader reads the records of the block files of one stream. It may not be
// used concurrently.
type BlockReader struct {
	Stream string
	hash   hash.Hash
	buffer bytes.Buffer // a block's file
	saw    func(record) // is called by scan with every intact record; may be nil
}

// open readies the reader for the block of that index: the index is part of the
// checksum's key.
func (b *BlockReader) open(index uint32) { b.hash = newHash(fmt.Sprintf("%s-%d", b.Stream, index)) }

// newHash returns the server's checksum of what has that name.
func newHash(name string) hash.Hash {
	key := sha256.Sum256([]byte(name))
	digest, _ := highwayhash.NewDigest64(key[:]) // the error is that of a key of another length
	return digest
}

// errTorn is a record that ends behind the end of the block.
var errTorn = errors.New("record is not complete")

// errBad is a record that is not what was written.
var errBad = errors.New("record is damaged")

// next returns the record at the beginning of buf.
func (b *BlockReader) next(buf []byte) (record, error) {
	if len(buf) < recordHeader {
		return record{}, errTorn
	}
	length := binary.LittleEndian.Uint32(buf)
	fixed := uint32(emptyRecord) + uint32(binary.LittleEndian.Uint16(buf[20:]))
	hasHeaders := length&headersFlag != 0
	length &^= headersFlag
	if hasHeaders {
		fixed += 4
	}
	if length < fixed || length > longestRecord {
		return record{}, errBad
	}
	if uint64(length) > uint64(len(buf)) {
		return record{}, errTorn
	}
	raw := buf[:length]
	if !bytes.Equal(b.checksum(raw, hasHeaders), raw[len(raw)-checksumSize:]) {
		return record{}, errBad
	}
	return record{raw: raw, sequence: binary.LittleEndian.Uint64(raw[4:])}, nil
}

// checksum computes the checksum of a record whose lengths were checked.
func (b *BlockReader) checksum(raw []byte, hasHeaders bool) []byte {
	subject := recordHeader + int(binary.LittleEndian.Uint16(raw[20:]))
	rest := subject
	if hasHeaders {
		rest += 4
	}
	b.hash.Reset()
	b.hash.Write(raw[4:20])
	b.hash.Write(raw[recordHeader:subject])
	b.hash.Write(raw[rest : len(raw)-checksumSize])
	return b.hash.Sum(nil)
}

// mark returns a record without a message. By the flag in its sequence it says that the
// message of that sequence and time was erased, so that its place is kept, or it is a
// tombstone.
func (b *BlockReader) mark(sequence uint64, at int64) []byte {
	raw := make([]byte, emptyRecord)
	binary.LittleEndian.PutUint32(raw, emptyRecord)
	binary.LittleEndian.PutUint64(raw[4:], sequence)
	binary.LittleEndian.PutUint64(raw[12:], uint64(at))
	copy(raw[emptyRecord-checksumSize:], b.checksum(raw, false))
	return raw
}

// decompress returns the records of a block, which the server compresses when it
// is full if the stream is configured so.
func decompress(buf []byte) ([]byte, error) {
	var info server.CompressionInfo
	n, err := info.UnmarshalMetadata(buf)
	if err != nil {
		return nil, fmt.Errorf("read the header of a compressed block: %w", err)
	}
	if n == 0 {
		return buf, nil
	}
	plain, err := info.Algorithm.Decompress(buf[n:])
	if err != nil {
		return nil, fmt.Errorf("decompress a block: %w", err)
	}
	return plain, nil
}
