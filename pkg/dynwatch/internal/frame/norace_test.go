//go:build !race

package frame_test

const poolDrops = 0
