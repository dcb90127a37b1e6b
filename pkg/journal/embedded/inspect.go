package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/minio/highwayhash"
)

// inspection is a look at the store before the server sees it: the server cuts a
// block off at its first damaged record, and passes over a stream that it cannot
// read, both without a word. What is damaged is kept in a directory of its own
// and the rest is put back together.
type inspection struct {
	dir        string
	journal    string // the prefix of the names of the journal's own streams
	store      store
	before     *ledger // nil: nothing is known
	syncAlways bool
	logger     *slog.Logger

	// note puts the damage down before anything is changed: what was repaired looks
	// fine to the next start.
	note func(damage []string) error

	aside  string // where damaged files go; made when the first does
	damage []string
	// verified says that every block was read and its checksums compared.
	verified bool
}

// run does it all. It can take a second or two per gigabyte, if the last end was
// not a clean one. The error is about the inspection; damage is none.
func (i *inspection) run(ctx context.Context) error {
	names, err := i.store.streams()
	if err != nil {
		return err
	}
	if i.before == nil && len(names) > 0 {
		i.found("ledger of the journal missing", "path", filepath.Join(i.dir, ledgerFile))
	}
	if i.before != nil {
		i.compareStreams(names)
	}
	i.verified = i.before == nil || !i.before.Clean
	for _, name := range names {
		if err := i.stream(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// compareStreams finds what the record of the last time tells by itself.
func (i *inspection) compareStreams(names []string) {
	for _, damage := range i.before.Damage {
		i.found(damage)
	}
	if boot := bootID(); !i.before.Clean && !i.syncAlways && boot != i.before.Boot {
		i.found("machine restarted while the journal was open: the newest messages may not have reached the disk (syncAlways: true prevents this)")
	}
	present := make(map[string]bool, len(names))
	for _, name := range names {
		present[name] = true
	}
	for name, files := range i.before.Streams {
		if !present[name] && len(files.blocks()) > 0 {
			i.found("stream directory missing", "stream", name)
		}
	}
}

// found reports damage, loudly.
func (i *inspection) found(what string, attributes ...any) {
	parts := []string{what}
	for n := 0; n+1 < len(attributes); n += 2 {
		parts = append(parts, fmt.Sprintf("(%v %v)", attributes[n], attributes[n+1]))
	}
	text := strings.Join(parts, " ")
	if slices.Contains(i.damage, text) {
		return
	}
	i.damage = append(i.damage, text)
	i.logger.Error("journal damaged; repairing and reconciling", append([]any{"dir", i.dir, "reason", what}, attributes...)...)
}

func (i *inspection) stream(ctx context.Context, name string) error {
	files, err := i.store.files(name)
	if err != nil {
		return err
	}
	if err := i.metadata(name, len(files.blocks()) > 0); err != nil {
		return err
	}
	gone := i.removedFrom(name)
	verify := i.compareFiles(name, files, gone)
	if !verify {
		return nil
	}
	look, err := i.blocks(ctx, name, files, gone)
	if err != nil {
		return err
	}
	indexes := files.blocks()
	went, err := i.judge(name, gone, indexes)
	if err != nil {
		return err
	}
	missing := look.back.missing(len(i.damage) == 0)
	if len(indexes) == 0 || !look.repaired && !went && len(missing) == 0 {
		return nil
	}
	if len(missing) > 0 {
		i.logger.Info("superseded messages left deleted", "dir", i.dir, "stream", name, "count", len(missing))
	}
	last := indexes[len(indexes)-1]
	if look.torn {
		// With another block behind it, what is torn would be damage to the next look.
		if err := os.Truncate(filepath.Join(i.store.messages(name), blockName(last)), look.intact); err != nil {
			return fmt.Errorf("cut off an unfinished write to stream %s: %w", name, err)
		}
	}
	return i.addBlocks(name, last, missing)
}

// blockMissing is what is said of a block that nobody removed for a good reason.
const blockMissing = "message block missing"

// metadata looks at what the server calls the stream by. Without it the server
// does not know the stream; with it set aside, whoever creates the stream finds
// its messages again.
func (i *inspection) metadata(name string, hasBlocks bool) error {
	content, err := os.ReadFile(filepath.Join(i.store.stream(name), "meta.inf"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the metadata of stream %s: %w", name, err)
	}
	sum, sumErr := os.ReadFile(filepath.Join(i.store.stream(name), "meta.sum"))
	if sumErr != nil && !errors.Is(sumErr, fs.ErrNotExist) {
		return fmt.Errorf("read the metadata of stream %s: %w", name, sumErr)
	}
	if err == nil && sumErr == nil {
		key := sha256.Sum256([]byte(name))
		digest, err := highwayhash.NewDigest64(key[:])
		if err != nil {
			return fmt.Errorf("create the checksum of metadata: %w", err)
		}
		if _, err := digest.Write(content); err != nil {
			return fmt.Errorf("compute the checksum of metadata: %w", err)
		}
		if hex.EncodeToString(digest.Sum(nil)) == string(sum) {
			return nil
		}
	}
	if !hasBlocks && i.before != nil && len(i.before.Streams[name].blocks()) == 0 {
		return nil // the creation of the stream was cut off; it never held anything
	}
	i.found("stream metadata missing or damaged", "stream", name)
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
func (i *inspection) compareFiles(name string, files streamLedger, gone *removed) (verify bool) {
	if i.before == nil {
		return true
	}
	before, known := i.before.Streams[name]
	clean := i.before.Clean && len(i.before.Damage) == 0
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
		case !ok && !i.before.Clean && gone.add(&blockReader{stream: name}, heldPath(i.dir, name, file), index) == nil:
			// The others say whether it is damage.
		case !ok:
			i.found(blockMissing, "stream", name, "path", file)
		case clean && is.Size != was.Size:
			i.found("message block changed in size since it was closed", "stream", name, "path", file)
		}
	}
	return verify
}

// mayHaveGone reports whether a missing block of that stream is no sign of
// damage. The blocks of an object bucket, say, come and go with every object, and
// what they hold has a checksum of its own. But to trust a journal with a hole
// costs an object, and to compare it with the cluster once too often only a list.
func (i *inspection) mayHaveGone(stream string) bool {
	return !i.before.Clean && !strings.HasPrefix(stream, i.journal)
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
func (i *inspection) blocks(ctx context.Context, name string, files streamLedger, gone *removed) (*blockLook, error) {
	look := &blockLook{back: revived{purged: make(map[string]bool)}}
	if name == i.journal {
		look.back.index = i.store.readIndex(name)
	}
	reader := &blockReader{stream: name, saw: func(is record) {
		gone.saw(is)
		if name == i.journal {
			look.back.saw(is)
		}
	}}
	indexes := files.blocks()
	clean := i.before != nil && i.before.Clean
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
func (i *inspection) block(reader *blockReader, index uint32, written bool, look *blockLook) error {
	name, file := reader.stream, blockName(index)
	report, err := reader.check(filepath.Join(i.store.messages(name), file), index, true)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err // not damage: another user's files
	case err != nil:
		i.found("message block unreadable", "stream", name, "path", file, "err", err)
		return i.setAside(name, filepath.Join("msgs", file))
	case report.bad == 0:
		return nil
	case report.torn && written:
		look.torn, look.intact = true, report.intact
		return nil
	}
	i.found("message block damaged", "stream", name, "path", file, "count", report.bad)
	look.repaired = true
	return i.repair(name, index, report.repaired)
}

// repair puts the readable records of a block in its place.
func (i *inspection) repair(stream string, index uint32, content []byte) error {
	file := blockName(index)
	if err := i.keep(stream, file); err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(i.store.messages(stream), file), content); err != nil {
		return fmt.Errorf("repair block %s of stream %s: %w", file, stream, err)
	}
	return nil
}
