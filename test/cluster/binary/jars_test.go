package binary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJarsAreThoseOfTheList(t *testing.T) {
	// The checksum of "a".
	const sum = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	for name, tt := range map[string]struct {
		jars map[string]string
		list string
		ok   bool
	}{
		"the same":        {map[string]string{"a.jar": "a"}, sum + "  a.jar\n", true},
		"another content": {map[string]string{"a.jar": "b"}, sum + "  a.jar\n", false},
		"another name":    {map[string]string{"b.jar": "a"}, sum + "  a.jar\n", false},
		"one more":        {map[string]string{"a.jar": "a", "b.jar": "a"}, sum + "  a.jar\n", false},
		"none":            {nil, sum + "  a.jar\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			list := filepath.Join(work, "SHA256SUMS")
			write(t, list, tt.list)
			if err := os.Mkdir(filepath.Join(work, "jars"), 0o700); err != nil {
				t.Fatal(err)
			}
			for jar, content := range tt.jars {
				write(t, filepath.Join(work, "jars", jar), content)
			}
			err := verifyJars(filepath.Join(work, "jars"), list)
			if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "SHA256SUMS") {
				t.Errorf("verifyJars: %v", err)
			}
		})
	}
}
