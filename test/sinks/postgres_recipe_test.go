package sinks_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	server "github.com/informd/informd/test/postgres"
)

// TestSQLRecipe runs the queries of docs/recipes.md.
func TestSQLRecipe(t *testing.T) {
	page, err := os.ReadFile("../../docs/recipes.md")
	must(t, err)
	block := regexp.MustCompile("(?ms)^```sql\n(.*?)^```$").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/recipes.md has no queries")
	}
	d := newDatabase(t, server.Start(t, server.Options{}), nil)
	before := d.object(event.Modified, "web", `{"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`)
	before.Time = time.Date(2026, 11, 20, 9, 45, 0, 0, time.UTC)
	before.Data = []byte(`{"fieldManager":{"manager":"kubectl"},"changed":["spec.containers[].image"],` + strings.TrimPrefix(string(before.Data), "{"))
	after := d.object(event.Modified, "db", `{"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`)
	after.Time = before.Time.Add(time.Hour)
	d.write(before, after)
	queries := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(block[1]), "informd.", "t.")), ";\n")
	if len(queries) != 3 {
		t.Fatalf("%d queries", len(queries))
	}
	d.want(queries[0], "test Pod 2")
	d.want(queries[1], "nginx:1 2 {shop}")
	d.want(strings.TrimSuffix(queries[2], ";"), `2026-11-20 09:45:00+00 modified Pod shop web kubectl ["spec.containers[].image"]`)
}
