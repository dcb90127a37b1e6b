// Package schema holds the JSON Schemas (draft 2020-12) of what informd reads and
// writes, for editors, for consumers of events, and for their tests. The files beside
// this one are made by `make schema` from the code that reads and writes; a test
// fails where they differ from it.
package schema

import _ "embed"

//go:embed config.schema.json
var config []byte

//go:embed event.schema.json
var event []byte

// Config returns the schema of the config file. The caller must not change it.
func Config() []byte { return config }

// Event returns the schema of an event in CloudEvents JSON form: of a line of a
// stdout or file sink, and of the body of a webhook request. A batch is an array of
// them. The caller must not change it.
func Event() []byte { return event }
