package configfile

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
)

// override is a value from outside of the file.
type override struct {
	path   string // of the key, "log.level"
	origin string // "--log-level" or "INFORMD_LOG_LEVEL"
	text   string
}

const (
	flagConfig = "config"
	envPrefix  = "INFORMD_"
	envConfig  = envPrefix + "CONFIG"
	// delimiter is one that no key contains: with viper's own, a dot, it would
	// take keys apart.
	delimiter = "::"
)

// flagsOf maps keys to the flags that set them.
func flagsOf() map[string]string {
	return map[string]string{"log.level": "log-level", "admin.listen": "admin-listen", "admin.socket": "admin-socket"}
}

// AddFileFlag adds the flag that names the config file.
func AddFileFlag(flags *pflag.FlagSet) {
	flags.StringP(flagConfig, "c", "", "config file (default: $"+envConfig+", else "+strings.Join(searched(), ", else ")+")")
}

// AddFlags adds the flags that [Load] reads.
func AddFlags(flags *pflag.FlagSet) {
	AddFileFlag(flags)
	flags.String("log-level", "", "debug, info, warn or error; overrides log.level of the config")
	flags.String("admin-listen", "", `host:port of the admin server, "" for none; overrides admin.listen of the config`)
	flags.String("admin-socket", "", `unix socket for the commands, "" for none; overrides admin.socket of the config`)
}

// outside is viper with the flags and the environment bound to it, by precedence.
type outside struct {
	viper *viper.Viper
	flags *pflag.FlagSet
}

func newOutside(flags *pflag.FlagSet) outside {
	return outside{viper: viper.NewWithOptions(viper.KeyDelimiter(delimiter)), flags: flags}
}

// lookup returns what the flag (none if flag is "") or the variable say about a key.
func (o outside) lookup(key, flag, variable string) (text, origin string, ok bool) {
	name := strings.ReplaceAll(key, ".", delimiter)
	// The only error of BindEnv is about a missing key.
	_ = o.viper.BindEnv(name, variable)
	origin = variable
	if o.flags != nil && o.flags.Changed(flag) {
		_ = o.viper.BindPFlag(name, o.flags.Lookup(flag)) // its only error is about a missing flag
		origin = "--" + flag
	}
	if !o.viper.IsSet(name) {
		return "", "", false
	}
	return o.viper.GetString(name), origin, true
}

// overrides looks up every single value of the config outside of its lists.
func (o outside) overrides() []override {
	var found []override
	for _, key := range singleKeys() {
		text, origin, ok := o.lookup(key, flagsOf()[key], variable(key))
		if !ok && mayBeEmpty(key) {
			origin = variable(key)
			text, ok = os.LookupEnv(origin)
		}
		if ok {
			found = append(found, override{key, origin, text})
		}
	}
	return found
}

// mayBeEmpty reports whether "" turns off what the key sets, so that its variable may be empty.
// Other empty variables count as not set.
func mayBeEmpty(key string) bool { return key == "admin.listen" || key == "admin.socket" }

// singleKeys lists the keys that have a variable.
func singleKeys() []string {
	var all []string
	for _, f := range config.Leaves(reflect.ValueOf(&config.Config{}).Elem(), "") {
		if config.IsScalar(f.Value) {
			all = append(all, f.Key)
		}
	}
	return all
}

// variable is the environment variable of a key: "journal.maxBytes" ->
// "INFORMD_JOURNAL_MAX_BYTES".
func variable(key string) string {
	var b strings.Builder
	last := '.'
	for _, c := range key {
		switch {
		case c == '.':
			b.WriteByte('_')
		case unicode.IsUpper(c) && unicode.IsLower(last):
			b.WriteByte('_')
			fallthrough
		default:
			b.WriteRune(unicode.ToUpper(c))
		}
		last = c
	}
	return envPrefix + b.String()
}

// override sets what comes from outside over what the file says.
func (r *reading) override(root reflect.Value, over []override) {
	for _, f := range config.Leaves(root, "") {
		for _, o := range over {
			if o.path != f.Key {
				continue
			}
			r.origins[o.path] = o.origin
			if message := setScalar(f, o.text); message != "" {
				r.fail(o.path, "%s", message)
			}
		}
	}
}

// strays warns of the variables of an environment that have no effect: those of a key that are
// empty, and those with the name of a variable of no key.
func strays(environment []string, body []byte) config.Errors {
	known := []string{strings.TrimPrefix(envConfig, envPrefix)}
	var needText []string
	for _, key := range singleKeys() {
		known = append(known, strings.TrimPrefix(variable(key), envPrefix))
		if !mayBeEmpty(key) {
			needText = append(needText, variable(key))
		}
	}
	var all config.Errors
	for _, one := range environment {
		name, value, _ := strings.Cut(one, "=")
		if value == "" && slices.Contains(needText, name) {
			all = append(all, config.Error{File: name, Msg: "is empty, and has no effect (remove it, or set a value)"})
		}
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" || slices.Contains(known, rest) || isForeign(name) || bytes.Contains(body, []byte(reference+name+"}")) {
			continue
		}
		hint := "it would be " + envPrefix + " and a key outside of resources and sinks, as in " + variable("log.level")
		if near, ok := display.Nearest(rest, known); ok {
			hint = fmt.Sprintf("did you mean %q?", envPrefix+near)
		}
		all = append(all, config.Error{File: config.OneLine(name), Msg: "is the variable of no key, and has no effect (" + hint + ")"})
	}
	slices.SortFunc(all, func(a, b config.Error) int { return strings.Compare(a.File, b.File) })
	return all
}

// isForeign reports whether others make the variable: the kubelet does, for every Service
// of the namespace that is called informd or informd-something, and so do informd's tests.
func isForeign(name string) bool { return foreign.MatchString(name) }

var foreign = regexp.MustCompile(`^INFORMD_(TEST_.*|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)
