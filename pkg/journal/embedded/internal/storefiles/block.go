package storefiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// BlockReport is the result of checking a block.
type BlockReport struct {
	// Bad is the number of damaged stretches; the records between them are intact.
	Bad int
	// Torn says that the only one is at the end and looks like a write that was
	// cut off by the end of the process; intact is where it begins, in bytes.
	Torn   bool
	intact int64
	// repaired is the block without its damaged stretches, if there are any.
	repaired []byte
}

// Check reads a whole block file and verifies every record's checksum. Only with
// repair it puts together the repaired block, which takes another block's memory.
func (b *BlockReader) Check(path string, index uint32, repair bool) (BlockReport, error) {
	raw, err := b.read(path, index)
	if err != nil {
		return BlockReport{}, fmt.Errorf("read a block of stream %s: %w", b.Stream, err)
	}
	buf, err := decompress(raw)
	if err != nil {
		return BlockReport{Bad: 1}, nil //nolint:nilerr // a block that cannot be decompressed is damage, and that is the answer
	}
	return b.scan(buf, repair), nil
}

// read opens the block of that index and returns the file's content, in memory that the next read
// takes again: at 8 MiB a block, the garbage of a whole store would be most of the process.
func (b *BlockReader) read(path string, index uint32) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b.buffer.Reset()
	_, err = b.buffer.ReadFrom(file)
	b.open(index)
	return b.buffer.Bytes(), errors.Join(err, file.Close())
}

func (b *BlockReader) scan(buf []byte, repair bool) BlockReport {
	var report BlockReport
	var good []byte
	var last uint64
	start := 0 // of the stretch of fine records that is not in good yet
	for at := 0; at < len(buf); {
		r, err := b.next(buf[at:])
		if err == nil {
			if b.saw != nil {
				b.saw(r)
			}
			if r.message() {
				last = max(last, r.number())
			}
			at += len(r.raw)
			continue
		}
		after := b.resume(buf, at+1, last)
		report.Torn = after == len(buf) && errors.Is(err, errTorn) && report.Bad == 0
		report.intact = int64(at)
		report.Bad++
		if repair {
			good = append(good, buf[start:at]...)
			good = append(good, b.placeholder(buf[at:], last)...)
		}
		at, start = after, after
	}
	if report.Bad > 0 && repair {
		report.repaired = append(good, buf[start:]...)
	}
	return report
}

// resume returns where the next intact record begins, at or behind from, or the
// end. A checksum decides; the sequence keeps a record that is quoted in the body
// of a damaged one from being taken.
func (b *BlockReader) resume(buf []byte, from int, last uint64) int {
	for at := from; at+emptyRecord <= len(buf); at++ {
		sequence := binary.LittleEndian.Uint64(buf[at+4:])
		if sequence&tombstoneFlag == 0 && sequence&^erasedFlag <= last {
			continue
		}
		if _, err := b.next(buf[at:]); err == nil {
			return at
		}
	}
	return len(buf)
}

// placeholder keeps the place of the damaged record at the beginning of buf, if
// its header still says which it was: should it be the stream's last, then its
// sequence must not be given to another message.
func (b *BlockReader) placeholder(buf []byte, last uint64) []byte {
	if len(buf) < recordHeader || last == 0 {
		return nil
	}
	if sequence := binary.LittleEndian.Uint64(buf[4:]); sequence != last+1 {
		return nil
	}
	return b.mark((last+1)|erasedFlag, int64(binary.LittleEndian.Uint64(buf[12:])))
}
