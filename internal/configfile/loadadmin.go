package configfile

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/informd/informd/internal/config"
)

const (
	adminKey      = "admin"
	journalDirKey = "journal.dir"
)

// LoadAdmin is [Load] for clients of a running informd: it reads the settings of the admin
// server and ignores mistakes elsewhere, as the informd that runs need not have
// them. With admin.listen or admin.socket from a flag or a variable it needs no file, and
// takes the rest from one that can be read. Its error is an [Errors].
func LoadAdmin(from Source) (config.Admin, error) {
	out := newOutside(from.Flags)
	over := slices.DeleteFunc(out.overrides(), func(o override) bool { return !inAdmin(o.path) && o.path != journalDirKey })
	c := config.Defaults()
	root := reflect.ValueOf(c).Elem()
	r, file, err := out.mapping(from)
	if err != nil {
		if !slices.ContainsFunc(over, func(o override) bool {
			empty := o.text == "" && o.origin == variable(o.path) // it turns an address off, and names none
			return inAdmin(o.path) && flagsOf()[o.path] != "" && !empty
		}) {
			return config.Admin{}, withoutConfig(err)
		}
		r, file = newReading("informd", from.Drivers), &node{Kind: kindMapping, At: fileStart()}
	}
	r.places[""] = file.At
	for _, key := range []string{adminKey, "journal"} {
		if p := file.Pair(key); p != nil {
			r.member(file, *p, "", config.FieldsOf(root))
		}
	}
	r.override(root, over)
	check := &checker{r}
	check.checkAdmin(c)
	check.checkPlaintext(c)
	r.Problems.List = slices.DeleteFunc(r.Problems.List, func(e config.Error) bool { return !inAdmin(e.Key) })
	return c.Admin, r.Err()
}

// mapping finds and reads the config file as far as it is a mapping.
func (o outside) mapping(from Source) (*reading, *node, error) {
	path, body, err := o.read(from)
	if err != nil {
		return nil, nil, err
	}
	r := newReading(path, from.Drivers)
	file := r.mapping(body)
	if file == nil {
		return nil, nil, r.Err()
	}
	return r, file, nil
}

func inAdmin(key string) bool { return key == adminKey || strings.HasPrefix(key, adminKey+".") }

// withoutConfig says how to do without the file that err is about.
func withoutConfig(err error) error {
	var found config.Errors
	if !errors.As(err, &found) {
		return err
	}
	return append(slices.Clone(found), config.Error{File: "informd", Msg: "--server ADDRESS needs no config"})
}
