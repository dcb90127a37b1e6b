// Package schemagen makes the JSON Schemas in schema/ from the code: that of the config
// file by configfile.Schema, with the comments of fields as descriptions; that of the event
// from the operations and attributes of package event.
//
// It is no part of the program, which has the files in it, because it reads Go
// source. Its test writes the files (`make schema`) and holds them to be what it makes.
//
// The schema of the config says what a key may hold by its form, and informd itself
// says the rest: names that must fit each other, files, selectors. In one thing it is
// stricter than informd, for which a key with nothing behind it is one that is not there.
package schemagen
