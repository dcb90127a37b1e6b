package chaos

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// longName is how many bytes the names have that no event can carry.
	longName = 32_500
	// subjectName is how many bytes a name can have so that a subject of NATS can carry it: each
	// takes up to three bytes there, and NATS takes 3,900. A nats sink has dead letters for others.
	subjectName = 1_000
	// historyBytes is how much a strike adds to the journal.
	historyBytes = 48 << 20
	// largeMaps is how many large ConfigMaps there are. They stay, as their deletions would.
	largeMaps = 10
	// secretNames and hostileNames are how many names the strikes share.
	secretNames  = 6
	hostileNames = 10
	// lives is how many objects a strike creates and deletes.
	lives = 120
)

// longNames creates Roles with names that no event can carry, changes and deletes them. The
// API server does not bound the names of Roles. Some stay.
func longNames(t *tenant) error {
	letters := []string{"a", "ä", "名", `"`, "*", " ", "\u202e", "\x01"}
	for range 1 + t.random.IntN(3) {
		letter := letters[t.random.IntN(len(letters))]
		name := t.text() + strings.Repeat(letter, longName/len(letter))
		if err := t.create(tenantRoles(), tenantObject("Role", name, nil)); err != nil {
			return err
		}
		for range t.random.IntN(3) {
			t.hold(0, time.Second)
			if err := t.label(tenantRoles(), name); err != nil {
				return err
			}
		}
		t.hold(time.Second, 4*time.Second)
		if t.random.IntN(4) == 0 {
			continue
		}
		if err := t.delete(tenantRoles(), name); err != nil {
			return err
		}
	}
	return nil
}

// largeHistory changes a few large ConfigMaps until their history is a large part of the
// journal.
func largeHistory(t *tenant) error {
	sizes := make(map[string]int)
	for written := 0; written < historyBytes && !t.over(); {
		name := fmt.Sprintf("large-%d", t.random.IntN(largeMaps))
		var err error
		if sizes[name] == 0 {
			sizes[name] = 500_000 + t.random.IntN(430_000)
			body := base64.StdEncoding.EncodeToString(t.noise(sizes[name] / 4 * 3))
			err = t.replace(tenantConfigMaps(), tenantObject("ConfigMap", name, map[string]any{"binaryData": map[string]any{"b": body}}))
		} else {
			err = t.patch(tenantConfigMaps(), name, fmt.Sprintf(`{"data":{"n":%q}}`, t.text()))
		}
		if err != nil {
			return err
		}
		written += sizes[name]
	}
	return nil
}

func (t *tenant) noise(bytes int) []byte {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte(t.random.Uint32())
	}
	return b
}

// copiedSecrets writes Secrets that have their values in annotations once more, as tools
// leave them there.
func copiedSecrets(t *tenant) error {
	for range 20 {
		if t.over() {
			return nil
		}
		name := fmt.Sprintf("copied-%d", t.random.IntN(secretNames))
		if t.random.IntN(5) == 0 {
			if err := t.delete(tenantSecrets(), name); err != nil {
				return err
			}
		}
		value := canary + t.text()
		manifest, err := json.Marshal(tenantObject("Secret", name, map[string]any{
			"stringData": map[string]any{"text": value},
			"data":       map[string]any{"text": base64.StdEncoding.EncodeToString([]byte(value))},
		}).Object)
		if err != nil {
			return err
		}
		o := tenantObject("Secret", name, map[string]any{"stringData": map[string]any{"text": value}})
		o.SetAnnotations(map[string]string{
			lastApplied:                       string(manifest),
			"kapp.k14s.io/original":           string(manifest),
			"banzaicloud.com/last-applied":    string(manifest),
			"objectset.rio.cattle.io/applied": base64.StdEncoding.EncodeToString(manifest),
			"tenant.example.com/copy":         value,
		})
		if err := t.replace(tenantSecrets(), o); err != nil {
			return err
		}
		t.hold(0, 200*time.Millisecond)
	}
	return nil
}

// hostileTexts are characters that a terminal, a header, a subject or a parser could obey.
// The API server accepts them in the names of Roles.
func hostileText() []string {
	return []string{
		"*", ">", "a.*.>", "$JS.API.STREAM.DELETE", "_INBOX", "..a..", "a b", `"quoted"`, `back\slash`, "'; DROP", "{}[]<>&",
		"tab\tand\nline\r\nCe-Id: forged", "\x00", "\x1b[2J\x1b]0;title\x07", "\x7f", "\u0085\u009b31m\u0090", "\u202eright\u2066left\u2069\u200f",
		"\u2028\u2029", "\ufeff\u00ad\u200b", "\ufffd", "名前", "e\u0301 \u00e9", "😀", ":", "~", "+", "=?utf-8?q?=41?=", "${HOME}", "%", "a/b",
	}
}

// hostileTexts writes hostile characters to wherever the API server takes them, with the
// longest names.
func hostileTexts(t *tenant) error {
	all := hostileText()
	for i := range hostileNames {
		if t.over() {
			return nil
		}
		text := all[t.random.IntN(len(all))]
		name := strings.NewReplacer("/", "-", "%", "-").Replace(text) + "|" + fmt.Sprint(i) // the only characters that Roles refuse
		if t.random.IntN(3) == 0 {
			name += strings.Repeat(name, t.random.IntN(subjectName/len(name)))
		}
		role := tenantObject("Role", name, nil)
		t.hostileMeta(role, text)
		long := tenantObject("ConfigMap", fmt.Sprint("c", i, strings.Repeat("a.b-", 63))[:253], map[string]any{"data": map[string]any{"text": text, strings.Repeat("k", 253): text}})
		t.hostileMeta(long, text)
		if err := t.replace(tenantRoles(), role); err != nil {
			return fmt.Errorf("role %.200q: %w", name, err)
		}
		if err := t.replace(tenantConfigMaps(), long); err != nil {
			return fmt.Errorf("text %.200q: %w", text, err)
		}
		t.hold(0, 300*time.Millisecond)
		if t.random.IntN(2) == 0 {
			if err := t.delete(tenantRoles(), name); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostileMeta sets what the metadata of an object can have: the API server does not bound
// the texts of owners.
func (t *tenant) hostileMeta(o *unstructured.Unstructured, text string) {
	o.SetLabels(map[string]string{strings.Repeat("p", 253) + "/" + strings.Repeat("l", 63): strings.Repeat("v", 63), "text": t.text()})
	o.SetAnnotations(map[string]string{"text": text, "long": strings.Repeat(text, 1+20_000/len(text))})
	owner := text
	if t.random.IntN(2) == 0 {
		owner = strings.Repeat(text, 1+longName/len(text))
	}
	o.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{ //nolint:forcetypeassert // SetLabels has made it
		"apiVersion": "example.com/v1", "kind": "Kind " + text, "name": owner, "uid": "uid " + text, "controller": true,
	}}
}

// shortLived creates and deletes objects as fast as one client can, and one that is as large
// as the API server takes it.
func shortLived(t *tenant) error {
	largest := tenantObject("ConfigMap", "largest", map[string]any{"data": map[string]any{"text": strings.Repeat("x", 1_000_000)}})
	largest.SetAnnotations(map[string]string{"text": strings.Repeat("&", 40_000)}) // etcd has six bytes for each
	if err := t.replace(tenantConfigMaps(), largest); err != nil {
		return err
	}
	for i := range lives {
		if t.over() {
			break
		}
		name := fmt.Sprintf("short-%d", i%7)
		if err := t.create(tenantConfigMaps(), tenantObject("ConfigMap", name, map[string]any{"data": map[string]any{"text": t.text()}})); err != nil {
			return err
		}
		if t.random.IntN(3) == 0 {
			if err := t.label(tenantConfigMaps(), name); err != nil {
				return err
			}
		}
		if err := t.delete(tenantConfigMaps(), name); err != nil {
			return err
		}
	}
	return t.delete(tenantConfigMaps(), "largest")
}
