package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Record is one line of the file sink.
type Record struct {
	ID, Op, Group, Version, Resource, Namespace, Name, UID, Cluster, Kind, Type, Subject, Time string

	ResourceVersion, PrevResourceVersion uint64 `json:",string"`
	FromRV, ToRV                         uint64 `json:",string"`
	Reason, Recovered                    string
	Ordinal                              uint64
	Run                                  uint64 `json:",string"`
	Replay                               bool
	Trimmed                              uint64 `json:",string"`
	Data                                 struct {
		Object json.RawMessage
		Final  *bool
	}

	Raw string `json:"-"` // the line
}

// Control reports whether it is a control event, which is about a target and no object.
func (r Record) Control() bool {
	return r.Op == "begin" || r.Op == "synced" || r.Op == "gap" || r.Op == "state"
}

// Records reads the file sink, without a last line that is being written.
func (d *Informd) Records() []Record {
	d.T.Helper()
	return slices.Clip(d.events.Read(d.T, d.EventsPath()))
}

// EventFile is a file sink's file, of which each read parses what is new.
type EventFile struct {
	records []Record
	offset  int64
}

func (f *EventFile) Read(t *testing.T, path string) []Record {
	t.Helper()
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	Must(t, err)
	defer file.Close() //nolint:errcheck // nothing was written
	if info, err := file.Stat(); err != nil || info.Size() < f.offset {
		t.Fatalf("%s was cut below what had been read (%d bytes): %v", path, f.offset, err)
	}
	lines := bufio.NewReaderSize(io.NewSectionReader(file, f.offset, math.MaxInt64-f.offset), 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return f.records
		}
		var r Record
		if err := errors.Join(err, json.Unmarshal(line, &r)); err != nil {
			t.Fatalf("event %d: %v\n%.1000s", len(f.records), err, line)
		}
		r.Raw = string(line)
		f.records = append(f.records, r)
		f.offset += int64(len(line))
	}
}

// Count is how many records have that op.
func Count(records []Record, op string) int {
	n := 0
	for _, r := range records {
		if r.Op == op {
			n++
		}
	}
	return n
}

// Number is the value of an environment variable, or the default.
func Number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", variable, err))
	}
	return n
}

// Reannounced reports whether a record repeats the state that came before it.
func (r Record) Reannounced() bool {
	return r.Op == "snapshot" && r.Replay && r.Run != 0
}

// Once leaves out what a sink was given again after a crash, which must be what it
// was given the first time.
func Once(t *testing.T, records []Record) (unique []Record, repeats int) {
	t.Helper()
	first := make(map[string]string)
	for _, r := range records {
		line, again := first[r.ID]
		switch {
		case !again:
			first[r.ID] = r.Raw
			unique = append(unique, r)
		case line != r.Raw:
			t.Errorf("%s came again, and not the same:\n%s%s", r.ID, line, r.Raw)
		default:
			repeats++
		}
	}
	return unique, repeats
}

// DecodeEvent reads the CloudEvents JSON form of an event.
func DecodeEvent(body io.Reader) (r Record, err error) {
	b, err := io.ReadAll(body)
	if err != nil {
		return r, err
	}
	r.Raw = string(b)
	return r, json.Unmarshal(b, &r)
}
