package record

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/event"
)

// The head of an event is a sequence of fields: number and length as uvarints, then the bytes.
// Numbers are part of the format; a reader ignores those that it does not know. Empty fields are
// left out. Here are those that [event.Event.Texts] and [event.Event.Numbers] do not have.
const (
	fieldID = iota + 10
	fieldOp
	fieldTime      // when informd observed the change; microseconds, if it is not that of the record
	fieldReplay    // empty
	fieldGap       // JSON
	fieldUnchanged // 8 bytes for each filter, also if there are none

	firstNumber = 20 // the first one of Numbers
	lastShared  = 7  // the last one of Texts that many events share: the namespace
)

// AppendEvent appends the head of an event that is appended at a time in microseconds.
func AppendEvent(dst []byte, e *event.Event, at int64) []byte {
	for number, text := range e.Texts() {
		if text != nil {
			dst = appendText(dst, byte(number), *text)
		}
	}
	dst = appendText(dst, fieldID, e.ID)
	dst = appendText(dst, fieldOp, string(e.Op))
	if observed := e.Time.UnixMicro(); observed != at {
		dst = appendNumber(dst, fieldTime, uint64(observed))
	}
	for i, number := range e.Numbers() {
		if *number != 0 {
			dst = appendNumber(dst, byte(firstNumber+i), *number)
		}
	}
	if e.Replay {
		dst = append(dst, fieldReplay, 0)
	}
	if e.Gap != nil {
		gap, err := json.Marshal(e.Gap)
		if err == nil { // of numbers and strings
			dst = appendField(dst, fieldGap, gap)
		}
	}
	if e.Unchanged != nil {
		dst = binary.AppendUvarint(append(dst, fieldUnchanged), uint64(8*len(e.Unchanged)))
		for _, id := range e.Unchanged {
			dst = binary.LittleEndian.AppendUint64(dst, id)
		}
	}
	return dst
}

func appendField[T string | []byte](dst []byte, number byte, value T) []byte {
	dst = binary.AppendUvarint(append(dst, number), uint64(len(value)))
	return append(dst, value...)
}

func appendText(dst []byte, number byte, value string) []byte {
	if value == "" {
		return dst
	}
	return appendField(dst, number, value)
}

func appendNumber(dst []byte, number byte, value uint64) []byte {
	var scratch [binary.MaxVarintLen64]byte
	return appendField(dst, number, binary.AppendUvarint(scratch[:0], value))
}

// The fields of a record that has a name and a value.
const (
	fieldOf    = 1
	fieldValue = 2
)

// AppendNamed appends the head of a record that is no event: the name of its target or sink, and a
// value in JSON.
func AppendNamed(dst []byte, name string, value []byte) []byte {
	dst = appendText(dst, fieldOf, name)
	return appendField(dst, fieldValue, value)
}

// ParseNamed reads such a head. Value is a part of it. The error wraps [ErrInvalid].
func ParseNamed(head []byte) (name string, value []byte, err error) {
	for len(head) > 0 {
		number, content, rest, err := nextField(head)
		if err != nil {
			return "", nil, err
		}
		switch number {
		case fieldOf:
			name = string(content)
		case fieldValue:
			value = content
		}
		head = rest
	}
	return name, value, nil
}

// Strings keeps one copy of each text that many events share. The zero value is ready. It is
// for one goroutine at a time, and holds at most 4,096 texts.
type Strings struct{ all map[string]string }

const maxStrings = 4096

func (s *Strings) of(b []byte) string {
	if known, ok := s.all[string(b)]; ok {
		return known
	}
	if s.all == nil || len(s.all) >= maxStrings {
		s.all = make(map[string]string)
	}
	text := string(b)
	s.all[text] = text
	return text
}

// ParseEvent reads the event of a record. Its strings are copies, and Data is that of the record. Of a record of
// kind [Forgotten] it has no operation and no id.
// The error wraps [ErrInvalid].
func ParseEvent(r *Record, shared *Strings) (event.Event, error) {
	e := event.Event{Time: time.UnixMicro(r.Time).UTC()}
	if len(r.Data) > 0 {
		e.Data = r.Data
	}
	texts, numbers := e.Texts(), e.Numbers()
	for head := r.Head; len(head) > 0; {
		number, value, rest, err := nextField(head)
		if err == nil {
			err = setField(&e, texts[:], numbers[:], number, value, shared)
		}
		if err != nil {
			return event.Event{}, err
		}
		head = rest
	}
	return e, nil
}

// nextField returns the first field of a head, and what follows it.
func nextField(head []byte) (number uint64, value, rest []byte, err error) {
	number, n := binary.Uvarint(head)
	if n <= 0 {
		return 0, nil, nil, fmt.Errorf("%w: a field without a number", ErrInvalid)
	}
	length, m := binary.Uvarint(head[n:])
	if m <= 0 || length > uint64(len(head)-n-m) {
		return 0, nil, nil, fmt.Errorf("%w: field %d is cut off", ErrInvalid, number)
	}
	begin := n + m
	end := begin + int(length)
	return number, head[begin:end], head[end:], nil
}

// setField sets a field of an event, which has these texts and numbers.
func setField(e *event.Event, texts []*string, numbers []*uint64, number uint64, value []byte, shared *Strings) error {
	switch number {
	case fieldID:
		e.ID = string(value)
	case fieldOp:
		e.Op = event.Op(shared.of(value))
	case fieldTime:
		var observed uint64
		err := parseNumber(&observed, number, value)
		e.Time = time.UnixMicro(int64(observed)).UTC()
		return err
	case fieldReplay:
		e.Replay = true
	case fieldGap:
		e.Gap = new(event.GapInfo)
		if err := json.Unmarshal(value, e.Gap); err != nil {
			return fmt.Errorf("%w: gap: %w", ErrInvalid, err)
		}
	case fieldUnchanged:
		if len(value)%8 != 0 {
			return fmt.Errorf("%w: ids of %d bytes", ErrInvalid, len(value))
		}
		e.Unchanged = make([]uint64, 0, len(value)/8)
		for ; len(value) > 0; value = value[8:] {
			e.Unchanged = append(e.Unchanged, binary.LittleEndian.Uint64(value))
		}
	default:
		switch i := number - firstNumber; {
		case i < uint64(len(numbers)):
			return parseNumber(numbers[i], number, value) //nolint:gosec // G602: the line above bounds i
		case number >= uint64(len(texts)) || texts[number] == nil: // of a later version
		case number <= lastShared:
			*texts[number] = shared.of(value)
		default:
			*texts[number] = string(value)
		}
	}
	return nil
}

func parseNumber(to *uint64, number uint64, value []byte) error {
	n, size := binary.Uvarint(value)
	if size != len(value) || size == 0 {
		return fmt.Errorf("%w: field %d is no number", ErrInvalid, number)
	}
	*to = n
	return nil
}
