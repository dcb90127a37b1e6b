package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestOffsetsThatGoBack: a partition whose offsets go back has lost events. The sink logs that,
// and reports the identity of a single topic again.
func TestOffsetsThatGoBack(t *testing.T) {
	at := func(topic string, partition int32, offset int64) *part {
		return &part{at: place{topic, partition, offset}}
	}
	failed := at("a", 0, -1)
	failed.err = errors.New("failed")
	for name, tt := range map[string]struct {
		waves [][]*part
		lost  string
	}{
		"growing":             {[][]*part{{at("a", 0, 0), at("a", 0, 1)}, {at("a", 0, 2)}}, ""},
		"with gaps":           {[][]*part{{at("a", 0, 7)}, {at("a", 0, 900)}}, ""},
		"of other partitions": {[][]*part{{at("a", 0, 7), at("a", 1, 2)}, {at("a", 1, 3)}, {at("b", 0, 0)}}, ""},
		"failed":              {[][]*part{{at("a", 0, 7)}, {failed}, {at("a", 0, 8)}}, ""},
		"not known":           {[][]*part{{at("a", 0, 7)}, {at("a", 0, -1)}, {at("a", 0, 8)}}, ""},
		"back":                {[][]*part{{at("a", 0, 7)}, {at("a", 0, 6)}}, "a"},
		"the same":            {[][]*part{{at("a", 0, 7)}, {at("a", 0, 7)}}, "a"},
		"back, then past it":  {[][]*part{{at("a", 0, 7)}, {at("a", 0, 5), at("a", 0, 6), at("a", 0, 7), at("a", 0, 8)}}, "a"},
		"back only once":      {[][]*part{{at("a", 0, 7)}, {at("a", 0, 3)}, {at("a", 0, 4)}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, single := range []bool{true, false} {
				var found, want []string
				var log bytes.Buffer
				s := &producer{ends: map[partition]int64{}, identity: "id", logger: slog.New(slog.NewTextHandler(&log, nil))}
				if single {
					s.found = func(identity string) { found = append(found, identity) }
				}
				for _, parts := range tt.waves {
					s.noteOffsets(&wave{parts: parts})
				}
				lines := 0
				if tt.lost != "" {
					lines = 1
				}
				if tt.lost != "" && single {
					want = []string{"", "id"}
				}
				if diff := cmp.Diff(want, found); diff != "" {
					t.Errorf("single topic %t: identities (-want +got):\n%s", single, diff)
				}
				if strings.Count(log.String(), "topic="+tt.lost+"\n") != lines {
					t.Errorf("single topic %t: want topic %q in the log:\n%s", single, tt.lost, &log)
				}
			}
		})
	}
}

// TestAnotherTopicBeginsAgain: the offsets of a topic that was created again are not lost events.
func TestAnotherTopicBeginsAgain(t *testing.T) {
	s := &producer{ends: map[partition]int64{{"a", 0}: 7, {"a", 1}: 8, {"b", 0}: 9}}
	s.forgetOffsets("a")
	if diff := cmp.Diff(map[partition]int64{{"b", 0}: 9}, s.ends, cmp.AllowUnexported(partition{})); diff != "" {
		t.Errorf("offsets (-want +got):\n%s", diff)
	}
}

// TestTopicWithoutID: a topic of a broker without ids is a destination by its name, so that the sink
// notices when it comes and when it goes. An id that is not known for once changes nothing.
func TestTopicWithoutID(t *testing.T) {
	var found []string
	s := &producer{ids: make(map[string]topicID), found: func(identity string) { found = append(found, identity) }}
	s.identify("k8s", topicID{})
	s.identify("k8s", topicID{15: 1})
	s.identify("k8s", topicID{})
	if want := []string{"k8s", "k8s 00000000000000000000000000000001"}; !slices.Equal(found, want) {
		t.Errorf("identities %q, want %q", found, want)
	}
}
