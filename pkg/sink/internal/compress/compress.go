// Package compress has the compressions of sinks: of request bodies, and of files. Sink types
// call it; it knows no events and no destinations.
package compress

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Method is a compression. In the config it is one of the constants.
type Method string

// The methods. For HTTP the name is also the content coding.
const (
	None Method = "none"
	Gzip Method = "gzip"
	Zstd Method = "zstd"
)

// window bounds what a zstd encoder remembers, and with it the memory of both
// sides.
const window = 1 << 20

// Problem says what is wrong with a method that is none, "" if it is one.
func (m Method) Problem() string {
	switch m {
	case None, Gzip, Zstd:
		return ""
	}
	return fmt.Sprintf("%q is not a compression; use %s, %s or %s", string(m), None, Gzip, Zstd)
}

// Suffix is what the names of files end in that are compressed so.
func (m Method) Suffix() string {
	switch m {
	case Gzip:
		return ".gz"
	case Zstd:
		return ".zst"
	case None:
	}
	return ""
}

// Suffixes are those of all methods, that of [None] first.
func Suffixes() []string { return []string{None.Suffix(), Gzip.Suffix(), Zstd.Suffix()} }

// NewWriter returns a writer whose Close ends the compressed stream, and leaves w
// open. The method is not [None]. It starts no goroutine.
func (m Method) NewWriter(w io.Writer) (io.WriteCloser, error) {
	if m == Gzip {
		return gzip.NewWriter(w), nil
	}
	return newZstd(w, zstd.WithEncoderConcurrency(1))
}

func newZstd(w io.Writer, options ...zstd.EOption) (*zstd.Encoder, error) {
	encoder, err := zstd.NewWriter(w, append(options, zstd.WithWindowSize(window))...)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return encoder, nil
}

// Encoder compresses what is in memory. Encode may be called concurrently.
type Encoder struct {
	method Method
	gzips  sync.Pool // of *gzip.Writer: one takes some 800 KiB to make
	zstd   *zstd.Encoder
}

// NewEncoder makes an Encoder. There is nothing to close.
func NewEncoder(m Method) (*Encoder, error) {
	e := &Encoder{method: m}
	if m != Zstd {
		return e, nil
	}
	var err error
	e.zstd, err = newZstd(nil)
	return e, err
}

// Encode returns the compressed body in new memory; with [None] the body itself.
func (e *Encoder) Encode(body []byte) ([]byte, error) {
	switch e.method {
	case Zstd:
		return e.zstd.EncodeAll(body, make([]byte, 0, len(body)/4)), nil
	case Gzip:
		return e.gzip(body)
	case None:
	}
	return body, nil
}

func (e *Encoder) gzip(body []byte) ([]byte, error) {
	var out bytes.Buffer
	w, ok := e.gzips.Get().(*gzip.Writer)
	if ok {
		w.Reset(&out)
	} else {
		w = gzip.NewWriter(&out)
	}
	defer e.gzips.Put(w)
	if _, err := w.Write(body); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return out.Bytes(), nil
}

// Decode unpacks what is in memory, an answer for example. More than limit bytes are an error.
func (m Method) Decode(packed []byte, limit int) ([]byte, error) {
	var unpacked io.Reader = bytes.NewReader(packed)
	var err error
	switch m {
	case Gzip:
		unpacked, err = gzip.NewReader(unpacked)
	case Zstd:
		var decoder *zstd.Decoder
		if decoder, err = zstd.NewReader(unpacked, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8*window)); err == nil {
			defer decoder.Close()
			unpacked = decoder
		}
	case None:
	default:
		err = errors.New(m.Problem())
	}
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(unpacked, int64(limit)+1))
	if err == nil && len(body) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return body, nil
}
