package configfile

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/sink"
)

// Source is where [Load] finds a config.
type Source struct {
	// Path is the file to read, whatever the flags and the environment say; empty
	// to ask them.
	Path string
	// Flags are parsed flags, those of [AddFlags] among them. Nil means none.
	Flags *pflag.FlagSet
	// Drivers are the sink types that the program is built with.
	Drivers []sink.Driver
	// AdminOptional: [LoadAdmin] need not find the admin server.
	AdminOptional bool
}

// Load reads the config file, with the flags and INFORMD_* variables over it.
// The file is the one that --config or INFORMD_CONFIG names, else the first
// there is of ./config.yaml and /etc/informd/config.yaml. It blocks as the file
// system does. Its error is a [config.Errors]; every call reads everything again.
func Load(from Source) (*config.Config, error) {
	out := newOutside(from.Flags)
	path, body, err := out.read(from)
	if err != nil {
		return nil, err
	}
	c, err := newReading(path, from.Drivers).config(body, out.overrides())
	if err != nil {
		return nil, err
	}
	c.Warnings = append(strays(os.Environ(), body), c.Warnings...)
	return c, nil
}

// Sum returns the hash of what is in a config file now, as [config.Config] has it. The
// error is a [config.Errors].
func Sum(path string) (sum [32]byte, err error) {
	body, err := read(path)
	if err != nil {
		return sum, err
	}
	return sha256.Sum256(body), nil
}

// searched lists where a config is when nobody says where.
func searched() []string { return []string{"./config.yaml", "/etc/informd/config.yaml"} }

// read finds and reads the config file.
func (o outside) read(from Source) (path string, body []byte, err error) {
	if path = from.Path; path == "" {
		if path, err = o.file(); err != nil {
			return "", nil, err
		}
	}
	body, err = read(path)
	return path, body, err
}

// file finds the config file.
func (o outside) file() (string, error) {
	if path, _, ok := o.lookup(flagConfig, flagConfig, envConfig); ok && path != "" {
		return path, nil
	}
	for _, path := range searched() {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", config.Errors{{File: "informd", Msg: "no config file: there is neither " +
		strings.Join(searched(), " nor ") + "; name yours with --" + flagConfig + " or " + envConfig}}
}

// read returns the content of a file, and of one that is too large just enough
// to tell.
func read(path string) (body []byte, err error) {
	fail := func(what string) error { return config.Errors{{File: path, Msg: what}} }
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail("there is no such file")
	case errors.Is(err, fs.ErrPermission):
		return nil, fail("no permission to read it")
	case err != nil:
		return nil, fail(err.Error())
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fail("is a directory: name the file in it")
	}
	body, err = io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fail(fmt.Sprintf("read: %v", errors.Unwrap(err)))
	}
	return body, nil
}

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
