package kafka

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/informd/informd/pkg/sink"
)

// TestEveryErrorOfTheBrokersIsClassified: the golden file says for each error that Kafka
// documents what it means for a record. A library with new errors has to be looked at.
func TestEveryErrorOfTheBrokersIsClassified(t *testing.T) {
	const most = 200 // codes are assigned from -1 up
	var b strings.Builder
	for code := int16(-1); code < most; code++ {
		known, _ := errors.AsType[*kerr.Error](kerr.ErrorForCode(code))
		if known == nil || known.Code != code {
			continue // no error, or none that the library knows
		}
		err, means := fmt.Errorf("produce: %w", known), "passing"
		switch {
		case tooLarge(err):
			means = "too large"
		case sink.IsUnknown(explainRecord(err, "t")):
			means = "unknown"
		}
		fmt.Fprintf(&b, "%d %s: %s\n", code, known.Message, means)
	}
	const golden = "testdata/errors.golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the errors are not those of %s: look at the new ones, then UPDATE_GOLDEN=1 go test", golden)
	}
}
