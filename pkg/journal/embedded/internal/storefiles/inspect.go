package storefiles

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Inspection checks the store before the server reads it. The server cuts a block off at its first
// damaged record, and skips an unreadable stream, both without a message. Inspection keeps damaged
// files in a separate directory, and saves their readable messages.
type Inspection struct {
	// Dir is journal.dir, Journal the prefix of the names of the journal's streams.
	Dir, Journal string
	Store        Store
	// Before is the record of the last time, nil if nothing is known.
	Before     *Ledger
	SyncAlways bool
	Logger     *slog.Logger

	// Note records the damage before anything is changed, because the next start sees repaired
	// files only.
	Note func(damage []string) error

	sizes Sizes  // of the last look
	aside string // the directory of damaged files; the first one creates it
	// Damage has one text for each damage, after Run.
	Damage []string
	// Verified reports that every block was read and its checksums compared.
	Verified bool
}

// Run does the inspection. After an unclean end it takes a second or two per gigabyte. Damage is no
// error.
func (i *Inspection) Run(ctx context.Context) error {
	names, err := i.Store.Streams()
	if err != nil {
		return err
	}
	if i.Before == nil && len(names) > 0 {
		i.Found("ledger of the journal missing", "path", filepath.Join(i.Dir, ledgerFile))
	}
	if i.Before != nil {
		i.compareStreams(names)
	}
	i.Verified = i.Before == nil || !i.Before.Clean
	if i.Verified {
		i.sizes = readSizes(i.Dir)
	}
	for _, name := range names {
		if err := i.stream(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// compareStreams finds what the record of the last time tells by itself.
func (i *Inspection) compareStreams(names []string) {
	for _, damage := range i.Before.Damage {
		i.Found(damage)
	}
	if boot := BootID(); !i.Before.Clean && !i.SyncAlways && boot != i.Before.Boot {
		i.Found("machine restarted while the journal was open: the newest messages may not have reached the disk (syncAlways: true prevents this)")
	}
	present := make(map[string]bool, len(names))
	for _, name := range names {
		present[name] = true
	}
	for name, files := range i.Before.Streams {
		if !present[name] && len(files.Blocks()) > 0 {
			i.Found("stream directory missing", "stream", name)
		}
	}
}

// Found notes a damage, and logs it.
func (i *Inspection) Found(what string, attributes ...any) {
	parts := []string{what}
	for n := 0; n+1 < len(attributes); n += 2 {
		parts = append(parts, fmt.Sprintf("(%v %v)", attributes[n], attributes[n+1]))
	}
	text := strings.Join(parts, " ")
	if slices.Contains(i.Damage, text) {
		return
	}
	i.Damage = append(i.Damage, text)
	i.Logger.Error("journal damaged; repairing and reconciling", append([]any{"dir", i.Dir, "reason", what}, attributes...)...)
}

func (i *Inspection) stream(ctx context.Context, name string) error {
	files, err := i.Store.Files(name)
	if err != nil {
		return err
	}
	if err := i.metadata(name, len(files.Blocks()) > 0); err != nil {
		return err
	}
	i.compareSizes(name, files)
	gone := i.removedFrom(name)
	verify := i.compareFiles(name, files, gone)
	if !verify {
		return nil
	}
	look, err := i.blocks(ctx, name, files, gone)
	if err != nil {
		return err
	}
	indexes := files.Blocks()
	if look.torn {
		// The server would cut it off as well. But the next look must know the length without it,
		// and with another block behind it, it would be damage.
		if err := i.cutOff(name, BlockName(indexes[len(indexes)-1]), look.intact); err != nil {
			return err
		}
	}
	went, err := i.judge(name, gone, indexes)
	if err != nil {
		return err
	}
	missing := look.back.missing(len(i.Damage) == 0)
	if len(indexes) == 0 || !look.repaired && !went && len(missing) == 0 {
		return nil
	}
	if len(missing) > 0 {
		i.Logger.Info("superseded messages left deleted", "dir", i.Dir, "stream", name, "count", len(missing))
	}
	return i.addBlocks(name, indexes[len(indexes)-1], missing)
}

// blockMissing is what is said of a block that nobody removed for a good reason.
const blockMissing = "message block missing"

// metadata looks at what the server calls the stream by. Without it the server
// does not know the stream; with it set aside, whoever creates the stream finds
// its messages again.
func (i *Inspection) metadata(name string, hasBlocks bool) error {
	content, err := os.ReadFile(filepath.Join(i.Store.stream(name), "meta.inf"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the metadata of stream %s: %w", name, err)
	}
	sum, sumErr := os.ReadFile(filepath.Join(i.Store.stream(name), "meta.sum"))
	if sumErr != nil && !errors.Is(sumErr, fs.ErrNotExist) {
		return fmt.Errorf("read the metadata of stream %s: %w", name, sumErr)
	}
	if err == nil && sumErr == nil {
		digest := newHash(name)
		digest.Write(content)
		if hex.EncodeToString(digest.Sum(nil)) == string(sum) {
			return nil
		}
	}
	if !hasBlocks && i.Before != nil && len(i.Before.Streams[name].Blocks()) == 0 {
		return nil // the creation of the stream was cut off; it never held anything
	}
	i.Found("stream metadata missing or damaged", "stream", name)
	for _, file := range []string{"meta.inf", "meta.sum"} {
		if err := i.setAside(name, file); err != nil {
			return err
		}
	}
	return nil
}

// compareFiles finds blocks that are missing or have another size, and says
// whether the stream's blocks must be read. Those of the missing ones whose contents
// are known go to gone.
func (i *Inspection) compareFiles(name string, files StreamLedger, gone *removed) (verify bool) {
	if i.Before == nil {
		return true
	}
	before, known := i.Before.Streams[name]
	clean := i.Before.Clean && len(i.Before.Damage) == 0
	if !known {
		// After a clean end that is a stream put there by hand: read it.
		return true
	}
	verify = !clean
	for file, was := range before {
		is, ok := files[file]
		if ok && is == was {
			continue
		}
		verify = true
		index, block := blockIndex(file)
		switch {
		case !block: // the server builds its index anew from the blocks
		case !ok && i.mayHaveGone(name):
		case !ok && !i.Before.Clean && gone.add(name, heldPath(i.Dir, name, file), index):
			// The others say whether it is damage.
		case !ok:
			i.Found(blockMissing, "stream", name, "path", file)
		case clean && is.Size != was.Size:
			i.Found("message block changed in size since it was closed", "stream", name, "path", file)
		}
	}
	return verify
}

// mayHaveGone reports whether a missing block of that stream is no sign of
// damage. The blocks of an object bucket, say, come and go with every object, and
// what they hold has a checksum of its own. But to trust a journal with a hole
// costs an object, and to compare it with the cluster once too often only a list.
func (i *Inspection) mayHaveGone(stream string) bool {
	return !i.Before.Clean && !strings.HasPrefix(stream, i.Journal)
}

// blockLook is what a look at all blocks of a stream found.
type blockLook struct {
	repaired bool // one was
	// torn says that the last one ends with an unfinished write, at intact.
	torn   bool
	intact int64
	back   revived
}

// blocks verifies every block of a stream and repairs those that need it.
func (i *Inspection) blocks(ctx context.Context, name string, files StreamLedger, gone *removed) (*blockLook, error) {
	look := &blockLook{back: revived{purged: make(map[string]bool)}}
	if name == i.Journal {
		look.back.index = i.Store.readIndex(name)
	}
	reader := &BlockReader{Stream: name, saw: func(is record) {
		gone.saw(is)
		if name == i.Journal {
			look.back.saw(is)
		}
	}}
	indexes := files.Blocks()
	clean := i.Before != nil && i.Before.Clean
	for n, index := range slices.Backward(indexes) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("inspect the journal's store: %w", err)
		}
		if err := i.block(reader, index, n == len(indexes)-1 && !clean, look); err != nil {
			return nil, err
		}
		look.back.endBlock()
	}
	return look, nil
}

// block verifies a block and repairs it if it needs that. One that was being written to
// may end with a torn record: a write that was never acknowledged, which the server cuts off.
func (i *Inspection) block(reader *BlockReader, index uint32, written bool, look *blockLook) error {
	name, file := reader.Stream, BlockName(index)
	report, err := reader.Check(filepath.Join(i.Store.Messages(name), file), index, true)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err // not damage: another user's files
	case err != nil:
		i.Found("message block unreadable", "stream", name, "path", file, "err", err)
		return i.setAside(name, filepath.Join("msgs", file))
	case report.Bad == 0:
		return nil
	case report.Torn && written:
		look.torn, look.intact = true, report.intact
		return nil
	}
	i.Found("message block damaged", "stream", name, "path", file, "count", report.Bad)
	look.repaired = true
	return i.repair(name, index, report.repaired)
}

// repair puts the readable records of a block in its place.
func (i *Inspection) repair(stream string, index uint32, content []byte) error {
	file := BlockName(index)
	if err := i.keep(stream, file); err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(i.Store.Messages(stream), file), content, true); err != nil {
		return fmt.Errorf("repair block %s of stream %s: %w", file, stream, err)
	}
	return nil
}
