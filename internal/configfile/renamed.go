package configfile

import (
	"regexp"
	"slices"
	"strings"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/config/document"
)

// renamed is a key that has another name now. The name that it had is an error.
type renamed struct {
	// old is the path of the key, with [] for any index.
	old string
	// key is the new key, in the mapping that the old one was in; "auth.username" is a key
	// in a mapping of its own.
	key string
	// hint says more where the value changes, too; it may be empty.
	hint string
}

// renamedKeys lists every key that was renamed. Where a key had two meanings, the row
// whose new key the mapping takes is meant.
func renamedKeys() []renamed {
	return []renamed{
		{old: "resources[].watch", key: "scope"},
		{old: "resources[].resync", key: "resnapshotEvery"},
		{old: "resources[].onlyWhenChanged", key: "emitWhen", hint: "as in emitWhen: {changed: [spec]}"},
		{old: "resources[].suppressNoop", key: "emitWhen", hint: "as in emitWhen: {noop: false}"},
		{old: "resources[].actor", key: "fieldManager"},
		{old: "resources[].owner", key: "ownerChain"},
		{old: "sinks[].only", key: "match"},
		{old: "sinks[].match[].when", key: "condition"},
		{old: "sinks[].match[].onError", key: "onConditionError"},
		{old: "sinks[].match[].onlyWhenChanged", key: "changed"},

		{old: "sinks[].url", key: "servers", hint: `as in servers: ["nats://nats:4222"]`},
		{old: "sinks[].brokers", key: "servers"},
		{old: "sinks[].credsFile", key: "auth.credsFile"},
		{old: "sinks[].nkeyFile", key: "auth.nkeyFile"},
		{old: "sinks[].tokenFile", key: "auth.tokenFile"},
		{old: "sinks[].sasl", key: "auth", hint: "with username in place of user"},
		{old: "sinks[].auth.bearerTokenFile", key: "tokenFile"},
		{old: "sinks[].auth.basic", key: "username", hint: "and passwordFile, as in auth: {username: informd, passwordFile: /etc/informd/password}"},
		{old: "sinks[].secretFile", key: "signing.keyFile"},
		{old: "sinks[].allowPlaintext", key: "allowInsecureAuth"},
		{old: "sinks[].allowPlaintext", key: "allowHTTP"},
		{old: "sinks[].createTopics", key: "create"},
		{old: "sinks[].historyPerObject", key: "create.historyPerObject"},
		{old: "sinks[].maxAge", key: "create.maxAge"},
		{old: "sinks[].maxBytes", key: "create.maxBytes"},
		{old: "sinks[].replicas", key: "create.replicas"},
		{old: "sinks[].maxSize", key: "maxBytes"},

		{old: "journal.tombstoneTTL", key: "deletedRetention"},
		{old: "admin.allowPlaintext", key: "allowHTTP"},
	}
}

// renamedVariables reports the variables of an environment whose keys were renamed: informd
// would run with the default instead.
func renamedVariables(environment []string) config.Errors {
	var all config.Errors
	for _, one := range renamedKeys() {
		if strings.Contains(one.old, "[]") {
			continue // these have no variables
		}
		top, _, _ := strings.Cut(one.old, ".")
		old, now := variable(one.old), variable(top+"."+one.key)
		if slices.ContainsFunc(environment, func(v string) bool { return strings.HasPrefix(v, old+"=") && v != old+"=" }) {
			all = append(all, config.Error{File: old, Msg: "was renamed: use " + now})
		}
	}
	return all
}

// renamedValue says what has the place of a value that is gone.
func renamedValue(path, value string) (string, bool) {
	switch {
	case path == "journal.type" && (value == "embedded" || value == "nats"):
		return "was replaced by " + config.JournalLog + ", the default: informd has a log of its own in journal.dir, and begins it with a snapshot; for high availability, set replicas", true
	case !strings.HasPrefix(anyIndex(path), "resources[].changes"):
		return "", false
	case value == "paths":
		return "was renamed: use " + config.ChangesChanged, true
	case value == "old":
		return "was renamed: use " + config.ChangesOldObject, true
	}
	return "", false
}

// anyIndex is a key path with [] for every index.
func anyIndex(path string) string {
	return regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(path, "[]")
}

// newName finds the key that has the place of an old one in a mapping of these keys.
func newName(path string, known []string) (renamed, bool) {
	old := anyIndex(path)
	all := renamedKeys()
	i := slices.IndexFunc(all, func(one renamed) bool {
		first, _, _ := strings.Cut(one.key, ".")
		return one.old == old && slices.Contains(known, first)
	})
	if i < 0 {
		return renamed{}, false
	}
	return all[i], true
}

// renamed reports a key that has another name now.
func (r *reading) renamed(in *document.Node, p document.Pair, path string, to renamed) {
	message := "was renamed: use " + to.key
	if to.hint != "" {
		message += ", " + to.hint
	}
	r.Add(p.At, document.Join(path, p.Key), "%s", message)
	first, _, _ := strings.Cut(to.key, ".")
	if right := in.Pair(first); right == nil || right.Value.Kind == document.Null {
		r.Suppress(document.Join(path, first))
	}
}
