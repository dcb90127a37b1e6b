package frame_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/fieldpath"
)

// asking is a normaliser that reads who wrote last, and the controller.
func asking(r *fieldpath.Rules) *frame.Normaliser {
	shape := frame.NewShape(frame.ShapeOptions{Rules: r, Actor: true, Owner: true}, frame.NewRedactor([]byte(shapeKey)))
	return frame.NewNormaliser("v1", "Kind", frame.Options{Shape: func() *frame.Shape { return shape }})
}

// withMetadata is an object with more metadata.
func withMetadata(more string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":"a","uid":"u","resourceVersion":"7"%s},"spec":{}}`, more)
}

func TestActor(t *testing.T) {
	const (
		early = `{"manager":"helm","operation":"Update","time":"2026-11-20T09:00:00Z"}`
		late  = `{"manager":"kubectl","operation":"Apply","subresource":"status","apiVersion":"v1","time":"2026-11-20T10:00:00Z","fieldsV1":{"f:x":{}}}`
		want  = `{"manager":"kubectl","operation":"Apply","subresource":"status","time":"2026-11-20T10:00:00Z"}`
	)
	cases := map[string]struct{ fields, want string }{
		"the newest first":          {`[` + late + `,` + early + `]`, want},
		"the newest last":           {`[` + early + `,` + late + `]`, want},
		"two of one time":           {`[{"manager":"a","time":"2026-11-20T10:00:00Z"},{"manager":"b","time":"2026-11-20T10:00:00Z"}]`, `{"manager":"b","time":"2026-11-20T10:00:00Z"}`},
		"a time of another form":    {`[` + late + `,{"manager":"b","time":"2026-11-20T11:00:00+02:00"}]`, ""},
		"a time with a fraction":    {`[{"time":"2026-11-20T1:00:0.1Z"}]`, ""},
		"no such day":               {`[{"time":"2026-02-30T10:00:00Z"}]`, ""},
		"an entry without a time":   {`[` + late + `,{"manager":"x"}]`, want},
		"escapes stay":              {`[{"manager":"k\u0075be\"","time":"2026-11-20T10:00:00Z"}]`, `{"manager":"k\u0075be\"","time":"2026-11-20T10:00:00Z"}`},
		"white space":               {` [ { "time" : "2026-11-20T10:00:00Z" , "manager" : "a" } ] `, `{"manager":"a","time":"2026-11-20T10:00:00Z"}`},
		"nothing but a time":        {`[{"manager":"","time":"2026-11-20T10:00:00Z"}]`, `{"time":"2026-11-20T10:00:00Z"}`},
		"none":                      {`[]`, ""},
		"no times":                  {`[{"manager":"x"}]`, ""},
		"null":                      {`null`, ""},
		"an object":                 {`{"manager":"x"}`, ""},
		"an entry that is none":     {`[` + late + `,7]`, ""},
		"a manager that is none":    {`[` + late + `,{"manager":7}]`, ""},
		"a manager twice":           {`[{"manager":"a","manager":"b","time":"2026-11-20T10:00:00Z"}]`, ""},
		"a time that is none":       {`[` + late + `,{"time":"yesterday"}]`, ""},
		"a time that is a number":   {`[` + late + `,{"time":7}]`, ""},
		"a time with more behind":   {`[{"time":"2026-11-20T10:00:00Z\n"}]`, ""},
		"a time of one digit hours": {`[{"time":"2026-11-20T1:00:00Z"}]`, ""},
		"an empty time":             {`[{"time":""}]`, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			raw := withMetadata(`,"managedFields":` + c.fields)
			got, err := asking(nil).Normalise(raw)
			if err != nil || string(got.Actor) != c.want {
				t.Errorf("actor %s, want %s (%v)", got.Actor, c.want, err)
			}
			if plain, err := frame.NewNormaliser("v1", "Kind", frame.Options{}).Normalise(raw); err != nil || plain.Actor != nil {
				t.Errorf("actor %s without being asked for (%v)", plain.Actor, err)
			}
			if bytes.Contains(closed(t, &got), []byte("managedFields")) {
				t.Errorf("object %s", got.Data)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	const (
		set  = `{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"rs","controller":true,"blockOwnerDeletion":true}`
		some = `{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"cm"}`
	)
	want := &frame.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "rs"}
	cases := map[string]struct {
		more string
		want *frame.Owner
	}{
		"a controller":             {`,"ownerReferences":[` + some + `,` + set + `]`, want},
		"escapes":                  {`,"ownerReferences":[` + strings.Replace(set, "web", `w\u0065b`, 1) + `]`, want},
		"no controller":            {`,"ownerReferences":[` + some + `]`, nil},
		"no owner":                 {``, nil},
		"null":                     {`,"ownerReferences":null`, nil},
		"an object":                {`,"ownerReferences":` + set, nil},
		"one that is none":         {`,"ownerReferences":[` + set + `,7]`, nil},
		"two controllers":          {`,"ownerReferences":[` + set + `,` + set + `]`, nil},
		"a uid twice":              {`,"ownerReferences":[` + strings.Replace(set, `"uid"`, `"uid":"x","uid"`, 1) + `]`, nil},
		"a controller twice":       {`,"ownerReferences":[` + strings.Replace(set, `"uid"`, `"controller":false,"uid"`, 1) + `]`, nil},
		"a name that is none":      {`,"ownerReferences":[` + strings.Replace(set, `"web-1"`, `7`, 1) + `]`, nil},
		"a controller without uid": {`,"ownerReferences":[` + strings.Replace(set, `"rs"`, `""`, 1) + `]`, nil},
		"a name without end":       {`,"ownerReferences":[` + strings.Replace(set, "web-1", strings.Repeat("x", 1024), 1) + `]`, nil},
		"a text is not true":       {`,"ownerReferences":[` + strings.Replace(set, `true`, `"true"`, 1) + `]`, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			raw := withMetadata(c.more)
			got, err := asking(nil).Normalise(raw)
			if diff := cmp.Diff(c.want, got.Owner); err != nil || diff != "" {
				t.Errorf("owner (-want +got): %v\n%s", err, diff)
			}
			plain, err := frame.NewNormaliser("v1", "Kind", frame.Options{}).Normalise(raw)
			if err != nil || plain.Owner != nil || !bytes.Equal(plain.Data, got.Data) {
				t.Errorf("owner %v without being asked for (%v); object\n%s, asked for\n%s", plain.Owner, err, plain.Data, got.Data)
			}
		})
	}
}

// What is read is there before keep and omit cut it out.
func TestAskedBeforeTheRules(t *testing.T) {
	asked := rules{keep: []string{"spec"}, omit: []string{"metadata.ownerReferences"}}.parse(t)
	got, err := asking(asked).Normalise(withMetadata(`,"managedFields":[{"manager":"m","time":"2026-11-20T10:00:00Z"}],` +
		`"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"o","controller":true}]`))
	if err != nil || got.Actor == nil || got.Owner == nil || bytes.Contains(got.Data, []byte("ownerReferences")) {
		t.Errorf("actor %s, owner %v, data %s, %v", got.Actor, got.Owner, got.Data, err)
	}
}

func TestShapeShows(t *testing.T) {
	shape := frame.NewShape(frame.ShapeOptions{Rules: rules{redact: []string{"/tok-[a-z]+/"}}.parse(t)}, frame.NewRedactor([]byte(shapeKey)))
	for member, want := range map[string]bool{
		`{"manager":"kubectl"}`:                  true,
		`{"manager":"of t\u006fk-abc and more"}`: false,
		`[{"name":"a"},{"name":"tok-abc"}]`:      false,
	} {
		if got := shape.Shows([]byte(member)); got != want {
			t.Errorf("%s shows: %t", member, got)
		}
	}
	if !(*frame.Shape)(nil).Shows([]byte(`{"manager":"tok-abc"}`)) {
		t.Error("without patterns nothing shows")
	}
}

// compareAsked holds what is asked for to the decoded reference, and the object's bytes
// to what they are without.
func compareAsked(t *testing.T, raw []byte) {
	t.Helper()
	plain, refused := frame.NewNormaliser("v1", "Kind", frame.Options{}).Normalise(raw)
	got, err := asking(nil).Normalise(raw)
	if (err != nil) != (refused != nil) || !bytes.Equal(plain.Data, got.Data) {
		t.Fatalf("asked: %v %s; not asked: %v %s\n%q", err, got.Data, refused, plain.Data, raw)
	}
	if err != nil {
		return
	}
	var actor map[string]string
	if got.Actor != nil {
		if err := json.Unmarshal(got.Actor, &actor); err != nil {
			t.Fatalf("actor %s: %v", got.Actor, err)
		}
	}
	if diff := cmp.Diff(refActor(raw), actor); diff != "" {
		t.Fatalf("actor (-want +got):\n%s\n%s", diff, raw)
	}
	if diff := cmp.Diff(refOwner(raw), got.Owner); diff != "" {
		t.Fatalf("owner (-want +got):\n%s\n%s", diff, raw)
	}
}

// asked makes an object with random managedFields and ownerReferences, most of them as
// they should be.
func (g generator) asked() []byte {
	seldom := func(strange, usual string) string {
		if g.IntN(40) == 0 {
			return strange
		}
		return usual
	}
	var fields, references []string
	for range g.IntN(6) {
		entry := []string{
			`"manager":` + seldom(g.pick("7", "null", `""`), fmt.Sprintf("%q", g.pick("kubectl", "m", "n\u00e9"))),
			seldom(`"manager":"again"`, `"fieldsV1":{"f:metadata":{"manager":1}}`),
			`"operation":` + seldom(`[]`, g.pick(`"Apply"`, `"Update"`)),
		}
		if g.IntN(2) == 0 {
			entry = append(entry, `"subresource":`+seldom(`{}`, `"status"`))
		}
		if g.IntN(8) > 0 {
			at := time.Unix(1_800_000_000+int64(g.IntN(4)), 0).UTC().Format(time.RFC3339)
			entry = append(entry, `"time":`+seldom(g.pick(`"2026"`, "1", `"2027-01-15T9:20:00+01:00"`, `"2027-01-15T09:20:01.5+01:00"`), fmt.Sprintf("%q", at)))
		}
		g.Shuffle(len(entry), func(i, j int) { entry[i], entry[j] = entry[j], entry[i] })
		fields = append(fields, seldom(g.pick("3", "[]", "{}", "null"), "{"+strings.Join(entry, ",")+"}"))
	}
	for i := range g.IntN(4) {
		r := []string{
			`"apiVersion":` + seldom("7", `"apps/v1"`), `"kind":` + seldom("null", `"K"`),
			`"name":` + seldom(`""`, fmt.Sprintf(`"n%d"`, i)), `"uid":"u"`, seldom(`"uid":"u"`, `"x":1`),
			`"controller":` + seldom(g.pick(`"true"`, "1", "null"), fmt.Sprint(i == 0)),
		}
		g.Shuffle(len(r), func(i, j int) { r[i], r[j] = r[j], r[i] })
		references = append(references, seldom(g.pick("3", "[]", "{}"), "{"+strings.Join(r, ",")+"}"))
	}
	more := seldom(`,"managedFields":7`, `,"managedFields":[`+strings.Join(fields, g.pick(",", " , "))+`]`) +
		seldom(`,"ownerReferences":{}`, `,"ownerReferences":[`+strings.Join(references, ",")+`]`) +
		seldom(`,"ownerReferences":[]`, ``) + seldom(`,"managedFields":[]`, ``)
	return withMetadata(more)
}

// FuzzAsked holds what is read on request to the decoded reference.
func FuzzAsked(f *testing.F) {
	for _, raw := range objects() {
		f.Add(raw)
	}
	for i := range uint64(50) {
		f.Add(generator{rand.New(rand.NewPCG(1, i))}.asked())
	}
	f.Fuzz(func(t *testing.T, raw []byte) { compareAsked(t, raw) })
}

// Huge lists cost no more than their length.
func TestAskedOfHugeLists(t *testing.T) {
	const many = 200_000
	entry := `{"manager":"m","time":"2026-11-20T10:00:00Z"},`
	raw := withMetadata(`,"managedFields":[` + strings.Repeat(entry, many) + `{"manager":"last","time":"2026-11-20T10:00:00Z"}],` +
		`"ownerReferences":[` + strings.Repeat(`{"kind":"K"},`, many) + `{}]`)
	got, err := asking(nil).Normalise(raw)
	if err != nil || string(got.Actor) != `{"manager":"last","time":"2026-11-20T10:00:00Z"}` || got.Owner != nil {
		t.Errorf("actor %s, owner %v, %v", got.Actor, got.Owner, err)
	}
}
