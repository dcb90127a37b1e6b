package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// side is what one informd has for itself, so that it can break for that one alone.
type side struct {
	dir  string // journal.dir
	disk *Disk
	// The links are between this informd and the API servers, the sinks' destinations, and those that copy its
	// log. A single informd has no links of its own, and no peer.
	api, bus, hook, peer *Link
	variant              int // of the config
}

// addSide gives the next informd its links. Its admin server listens on an address.
func (r *Rig) addSide(admin string) error {
	i := len(r.sides)
	s := &side{disk: r.disks[i], dir: filepath.Join(r.disks[i].Path, "state"), api: r.apiLink, bus: r.busLink}
	r.sides = append(r.sides, s)
	if !r.options.paired() {
		return nil
	}
	hook, err := url.Parse(r.hook.URL())
	if err != nil {
		return err
	}
	for backend, link := range map[string]**Link{r.apiLink.Address(): &s.api, r.busLink.Address(): &s.bus, hook.Host: &s.hook, admin: &s.peer} {
		if *link, err = r.link(backend); err != nil {
			return err
		}
	}
	return nil
}

// hookURL is where an informd reaches the webhook receiver, which tells the replicas apart by it.
func (r *Rig) hookURL(i int) string {
	if s := r.sides[i]; s.hook != nil {
		return "http://" + s.hook.Address() + hookPath(i)
	}
	return r.hook.URL()
}

func hookPath(i int) string { return fmt.Sprintf("/%d", i) }

// empty removes the log, as the loss of a volume does. The informd is down.
func (s *side) empty() error { return os.RemoveAll(s.dir) }

// whole reports whether the log here is one that a takeover can continue: an own one, or a copy that says so.
func (s *side) whole() bool {
	names, err := filepath.Glob(filepath.Join(s.dir, "*.log"))
	if err != nil || len(names) == 0 {
		return false
	}
	content, err := os.ReadFile(filepath.Join(s.dir, "copy"))
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	var state struct{ Is string }
	return err == nil && json.Unmarshal(content, &state) == nil && state.Is == "whole"
}

// named returns the index of the informd of an address in the Lease, or -1.
func (r *Rig) named(address string) int {
	return slices.IndexFunc(r.sides, func(s *side) bool { return s.peer.Address() == strings.TrimSpace(address) })
}
