// Package configkey finds the keys of the config in its JSON Schema, and prints their
// documentation for informd explain.
package configkey
