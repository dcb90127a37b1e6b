package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxIdentity is how many bytes namespace, name and uid of an object may have for an event
// to carry them.
const maxIdentity = 8 << 10

// lettersTime is how long informd may take to list its dead letters.
const lettersTime = time.Minute

// uncarriable reports whether no event can carry the object's identity. It has dead letters
// of the source in place of events.
func (o *Object) uncarriable() bool { return len(o.Namespace)+len(o.Name)+len(o.UID) > maxIdentity }

// sourceLetter is a dead letter of the source, as informd lists it.
type sourceLetter struct{ Target, Key, Reason string }

// sourceLetters asks the informds for the dead letters of the source.
func (r *Rig) sourceLetters(ctx context.Context) ([]sourceLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, lettersTime)
	defer cancel()
	for {
		var errs []error
		for i := range r.informds {
			out, err := exec.CommandContext(ctx, r.options.Binary, "deadletters", "list", "--sink", "source", "-o", "json", "--config", r.configPath(i)).Output()
			if err == nil {
				return readLetters(out)
			}
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list the dead letters of the source: %w", errors.Join(errs...))
		}
		pause(ctx, retryPause)
	}
}

func readLetters(lines []byte) ([]sourceLetter, error) {
	var all []sourceLetter
	for line := range bytes.Lines(lines) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var l struct{ Letter sourceLetter }
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("read a dead letter of the source: %w: %.200s", err, line)
		}
		all = append(all, l.Letter)
	}
	return all, nil
}

// checkLetters is I18: the dead letters of the source are revisions of objects that no event
// can carry. It notes these revisions in the truth; check misses the other ones.
func checkLetters(truth *Truth, letters []sourceLetter) []Violation {
	var long []*Object
	for _, o := range truth.sorted() {
		if o.uncarriable() {
			long = append(long, o)
		}
	}
	var all []Violation
	for _, l := range letters {
		i := slices.IndexFunc(long, func(o *Object) bool { return o.named(l) })
		if i < 0 {
			all = append(all, Violation{Invariant: "I18", Sink: "source", Text: fmt.Sprintf("a dead letter of %s names %.300q, which events can carry: %s", l.Target, l.Key, l.Reason)})
			continue
		}
		truth.Rejected[rejected{long[i].UID, l.revision()}] = true
	}
	return all
}

// rejected is a revision that a dead letter of the source names.
type rejected struct {
	uid string
	rv  uint64
}

// revision is that of the object, as the letter names it.
func (l sourceLetter) revision() uint64 {
	_, digits, _ := strings.Cut(l.Key[strings.LastIndexByte(l.Key, ' ')+1:], "=")
	rv, _ := strconv.ParseUint(digits, 10, 64) // 0 is of no object
	return rv
}

// named reports whether the letter names the object at one of its revisions. Long names are
// cut, with their length behind.
func (o *Object) named(l sourceLetter) bool {
	match := regexp.MustCompile(`(?s)^(.*)… \(name of (\d+) bytes\) resourceversion=\d+$`).FindStringSubmatch(l.Key)
	return match != nil && l.Target == o.Target && match[2] == fmt.Sprint(len(o.Name)) && len(match[1]) > len(o.Namespace)+100 &&
		strings.HasPrefix(o.Namespace+"/"+o.Name, match[1]) &&
		slices.ContainsFunc(o.Revisions, func(r Revision) bool { return r.RV == l.revision() })
}
