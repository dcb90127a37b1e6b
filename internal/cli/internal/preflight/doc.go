// Package preflight is the report of informd plan: its document, its tables for people, and
// whether informd can watch everything.
package preflight
