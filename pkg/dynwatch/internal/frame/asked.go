package frame

import (
	"bytes"
	"slices"
	"time"

	"github.com/informd/informd/internal/jsonend"
)

// maxOwner bounds the texts of a controller, in bytes. They are kept for as long as the
// object is there, and none that Kubernetes takes for an object of its own comes near.
const maxOwner = 1024

// Owner is what an object's ownerReferences say of its controller. No field is empty.
type Owner struct{ APIVersion, Kind, Name, UID string }

// entry is an object in managedFields or ownerReferences: the values of the members that are read,
// as they stand there, nil for what it has not.
type entry [5][]byte

// usualWriter is room for what is said of most writers, in bytes.
const usualWriter = 192

// The places in an entry of what decides between two.
const (
	writtenAt = 3
	controls  = 4
)

// writerMembers are what is read of managedFields, controllerMembers what is of ownerReferences.
func writerMembers() []string { return []string{"manager", "operation", "subresource", "time"} }

func controllerMembers() []string { return []string{"apiVersion", "kind", "name", "uid", "controller"} }

// managedFields checks metadata.managedFields, and reads who wrote last if that is
// asked for. The later of two with the same time counts as the newer: the API server gives times in
// seconds, and puts Apply before Update.
func (p *pass) managedFields(i int) int {
	if !p.shape.asksActor() {
		return p.Value(i, 2)
	}
	end, sound := p.entries(i, writerMembers(), func(e entry) bool {
		written := e[writtenAt]
		if written != nil && bytes.Compare(written, p.writer[writtenAt]) >= 0 {
			p.writer = e
		}
		return e.texts() && (written == nil || isTime(written))
	})
	if !sound {
		p.writer = entry{}
	}
	return end
}

// ownerReferences checks metadata.ownerReferences, and reads the controller if that is
// asked for.
func (p *pass) ownerReferences(i int) int {
	if !p.shape.AsksOwner() {
		return p.Value(i, 2)
	}
	end, sound := p.entries(i, controllerMembers(), func(e entry) bool {
		if string(e[controls]) != "true" {
			return e.texts()
		}
		size, only := 0, p.controller[controls] == nil
		p.controller = e
		for _, text := range e[:controls] {
			if size += len(text); len(text) <= len(`""`) {
				return false
			}
		}
		return e.texts() && only && size <= maxOwner+controls*len(`""`)
	})
	if !sound {
		p.controller = entry{}
	}
	return end
}

// entries checks the array that begins at i and reads these members of its elements. Sound is
// false if it is not an array of objects, if one of them has a member twice, or if take says so:
// then it is not known what the array means.
func (p *pass) entries(i int, members []string, take func(entry) bool) (end int, sound bool) {
	if !p.opens(i, '[') {
		return p.Value(i, 2), false
	}
	sound = true
	end = p.Elements(i, func(i int) int {
		if !p.opens(i, '{') {
			sound = false
			return p.Value(i, 3)
		}
		var e entry
		end, _ := p.Walk(i, func(key []byte, value int) (int, bool) {
			end := p.Value(value, 4)
			if k := slices.Index(members, string(key)); k >= 0 && end != jsonend.None {
				sound = sound && e[k] == nil
				e[k] = p.Data[value:end]
			}
			return end, false
		})
		sound = take(e) && sound
		return end
	})
	return end, sound
}

// texts reports whether all that an entry has is text, but for what says whether it is a controller.
func (e *entry) texts() bool {
	return !slices.ContainsFunc(e[:controls], func(value []byte) bool { return value != nil && value[0] != '"' })
}

// isTime reports whether a text is a time as the API server writes all of them, in UTC
// and seconds, so that a later one is a greater text.
func isTime(text []byte) bool {
	const like = `"2006-01-02T15:04:05Z"`
	if len(text) != len(like) || text[14] != ':' || text[17] != ':' || text[20] != 'Z' {
		return false // time.Parse would let one digit and fractions pass
	}
	_, err := time.Parse(like, string(text))
	return err == nil
}

// actor is who wrote last as JSON, nil if that is not known.
func (p *pass) actor() []byte {
	if p.writer[writtenAt] == nil {
		return nil
	}
	dst := append(make([]byte, 0, usualWriter), '{')
	for i, name := range writerMembers() {
		if text := p.writer[i]; len(text) > len(`""`) {
			dst = append(jsonend.AppendString(dst, name), ':')
			dst = append(append(dst, text...), ',')
		}
	}
	dst[len(dst)-1] = '}'
	return dst
}

// owner is the controller, nil if there is none or it is not known. Its strings share one block of
// their own.
func (p *pass) owner() *Owner {
	if p.controller[controls] == nil {
		return nil
	}
	block := make([]byte, 0, maxOwner)
	var ends [controls]int
	for i, value := range p.controller[:controls] {
		text, _ := jsonend.Decode(value)
		block = append(block, text...)
		ends[i] = len(block)
	}
	all := string(block)
	return &Owner{all[:ends[0]], all[ends[0]:ends[1]], all[ends[1]:ends[2]], all[ends[2]:]}
}
