//go:build !long

package journal_test

// How many random runs TestModel, TestPair and TestNoRowWithoutTheLog have in the quick tier.
const (
	modelSeeds = "6"
	pairSeeds  = 3
	wholeSeeds = 1
)
