//go:build long

package journal_test

// How many random runs TestModel, TestPair and TestNoRowWithoutTheLog have in the long tier.
const (
	modelSeeds = "30"
	pairSeeds  = 20
	wholeSeeds = 8
)
