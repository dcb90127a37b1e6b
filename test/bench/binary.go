package main

import (
	"context"
	"debug/elf"
	"errors"
	"os"
)

// binary looks at the file of informd.
func (b *bench) binary(context.Context) error {
	info, err := os.Stat(b.informd)
	if err != nil {
		return err
	}
	file, err := elf.Open(b.informd)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was read only
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("informd is not static: it needs a dynamic linker")
		}
	}
	b.binaryMiB = []float64{float64(info.Size()) / (1 << 20)}
	return nil
}
