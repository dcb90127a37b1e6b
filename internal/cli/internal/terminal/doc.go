// Package terminal formats tables, texts and figures for people at a terminal, so that no text
// from outside can act on the terminal or leave its line.
package terminal
