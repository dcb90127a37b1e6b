package schemagen

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink"
)

// object is a JSON object, in most cases a schema or the properties of one.
type object = map[string]any

const dialect = "https://json-schema.org/draft/2020-12/schema"

// Config returns the schema of the config file for a program with those sink types, with the
// comments of fields as descriptions. Root is the top of the repository, whose source it reads.
func Config(root string, drivers []sink.Driver) ([]byte, error) {
	c := newComments(root)
	whole, err := configfile.Schema(drivers, func(of reflect.Type, field reflect.StructField) string { return c.of(of, field.Name) })
	if err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, c.err
	}
	whole["$schema"] = dialect
	whole["title"] = "The config file of informd"
	return encode(whole)
}

func encode(schema object) ([]byte, error) {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(schema); err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return []byte(text.String()), nil
}
