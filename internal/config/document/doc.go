// Package document reads a config as YAML with a place for every value, and collects the problems
// of a config with their places. It knows no key of the config.
package document
