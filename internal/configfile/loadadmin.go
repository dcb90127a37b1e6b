package configfile

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/informd/informd/internal/config"
)

// LoadAdmin is [Load] for clients of a running informd: it returns the settings of the admin
// server and ignores mistakes elsewhere, as the informd that runs need not have
// them. With admin.listen or admin.socket from a flag or a variable, or with AdminOptional, it needs
// no file, and takes the rest from one that can be read. Its error is a [config.Errors].
func LoadAdmin(from Source) (config.Admin, error) {
	out := newOutside(from.Flags)
	over := out.overrides()
	path, body, err := out.read(from)
	r := newReading(cmp.Or(path, "informd"), from.Drivers)
	c := config.Defaults()
	if !r.fill(c, body, over) {
		if !from.AdminOptional && !slices.ContainsFunc(over, namesServer) {
			return config.Admin{}, withoutConfig(cmp.Or(err, r.Err()))
		}
		check := &checker{r}
		check.checkAdmin(c)
		check.checkPlaintext(c)
	}
	r.List = slices.DeleteFunc(r.List, func(e config.Error) bool { return !strings.HasPrefix(e.Key+".", "admin.") })
	return c.Admin, r.Err()
}

// namesServer reports whether a flag or variable says where the admin server is. An empty variable turns it off.
func namesServer(o override) bool {
	return mayBeEmpty(o.path) && (o.text != "" || o.origin != variable(o.path))
}

// withoutConfig says how to do without the file that err is about.
func withoutConfig(err error) error {
	var found config.Errors
	if !errors.As(err, &found) {
		return err
	}
	return append(slices.Clone(found), config.Error{File: "informd", Msg: "--server ADDRESS needs no config"})
}
