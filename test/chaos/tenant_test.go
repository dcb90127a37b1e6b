package chaos

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLettersOfTheSource: a revision of an object that no event can carry is excused if a dead
// letter of the source names it, and by nothing else. No other object has such a letter.
func TestLettersOfTheSource(t *testing.T) {
	long := strings.Repeat("x", longName)
	letter := func(name string, length int, rv uint64) sourceLetter {
		return sourceLetter{Target: target, Key: fmt.Sprintf("ns/%s… (name of %d bytes) resourceversion=%d", name[:min(len(name), 1000)], length, rv)}
	}
	whole := []sourceLetter{letter(long, longName, 30), letter(long, longName, 32)}
	tests := map[string]struct {
		letters []sourceLetter
		want    []string
	}{
		"All":             {whole, nil},
		"Twice":           {append(slices.Clone(whole), whole...), nil},
		"None":            {nil, []string{"I1", "I2", "I2"}},
		"LastMissing":     {whole[:1], []string{"I1", "I2"}},
		"FirstMissing":    {whole[1:], []string{"I2"}},
		"OtherObject":     {append(slices.Clone(whole), sourceLetter{Target: target, Key: "ns/a uid=u1 resourceversion=14"}), []string{"I18"}},
		"OtherRevision":   {append(slices.Clone(whole), letter(long, longName, 31)), []string{"I18"}},
		"OtherLength":     {append(slices.Clone(whole), letter(long, longName+1, 30)), []string{"I18"}},
		"OtherName":       {append(slices.Clone(whole), letter("y"+long, longName, 30)), []string{"I18"}},
		"NamespaceAlone":  {append(slices.Clone(whole), letter("", longName, 30)), []string{"I18"}},
		"NothingReadable": {append(slices.Clone(whole), sourceLetter{Target: target, Key: "?"}), []string{"I18"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			s.truth.Rejected = make(map[rejected]bool)
			s.object("u7", long, 30, 32)
			var got []string
			for _, v := range slices.Concat(checkLetters(&s.truth, test.letters), check(&s.truth, &s.sink, Limits{}).violations) {
				got = append(got, v.Invariant)
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("fired %v, want %v", got, test.want)
			}
		})
	}
}

// TestNeighbours: only the time counts in which the tenant disturbed informd and nothing else
// did.
func TestNeighbours(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	strikes := []Strike{
		{Began: at(100), Healed: at(110), Caught: at(200), touches: []string{"tenant"}},
		{Began: at(120), Healed: at(130), Caught: at(140), touches: []string{"bus"}},
		{Began: at(190), Healed: at(210), Caught: at(220), touches: []string{"informd"}},
	}
	tests := map[string]struct {
		from, to int
		tenant   bool
		broken   bool
	}{
		"Alone":         {141, 180, false, true},
		"AroundAnother": {105, 165, false, true},
		"Short":         {141, 170, false, false},
		"WhileAnother":  {110, 160, false, false},
		"After":         {175, 400, false, false},
		"Before":        {1, 115, false, false},
		"OwnEvent":      {141, 180, true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Rig{file: newConsumer("file", nil), stream: newConsumer("nats", nil), hook: &Hook{consumer: newConsumer("webhook", nil)}}
			r.stream.tracker.delays = []Delay{{At: at(test.to), For: at(test.to).Sub(at(test.from)), Tenant: test.tenant}}
			if got := neighbours(r, strikes); (len(got) == 1) != test.broken {
				t.Errorf("%+v, want broken %t", got, test.broken)
			}
		})
	}
}

// TestCanaryInLongerTexts: a Secret's value shows wherever it is in a text.
func TestCanaryInLongerTexts(t *testing.T) {
	for before := range 7 {
		text := strings.Repeat("-", before) + canary + "tail"
		for _, raw := range []string{text, base64.StdEncoding.EncodeToString([]byte(text))} {
			if !holdsCanary([]byte(`{"a":"` + raw + `"}`)) {
				t.Errorf("not found in %s", raw)
			}
		}
	}
	if holdsCanary([]byte(canary[:20])) || holdsCanary([]byte(base64.StdEncoding.EncodeToString([]byte("CANARY-of-"+canary[:9])))) {
		t.Error("found where it is not")
	}
}
