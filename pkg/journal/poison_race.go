//go:build race

package journal

// poison spoils what an event carried that the last cursor has committed, so that tests see
// who has kept it.
func poison(b []byte) {
	for i := range b {
		b[i] = '!'
	}
}
