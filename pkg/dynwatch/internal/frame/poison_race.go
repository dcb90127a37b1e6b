//go:build race

package frame

// poison spoils the Data of a watch's objects that is done with, so that tests see
// who has kept it.
func poison(b []byte) {
	for i := range b {
		b[i] = '!'
	}
}
