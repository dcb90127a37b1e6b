package main

import (
	"math"
	"slices"
)

// spread is what several runs of the same come to, without those that were not
// measured (NaN).
type spread struct {
	Median, Least, Most float64
	Runs                int
}

func spreadOf(values []float64) spread {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(values) == 0 {
		return spread{Median: math.NaN(), Least: math.NaN(), Most: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Least: sorted[0], Most: sorted[n-1], Runs: n}
}

// ratios divides pair by pair: what ran right after each other was disturbed alike.
func ratios(above, below []float64) []float64 {
	var all []float64
	for i := range min(len(above), len(below)) {
		if below[i] > 0 {
			all = append(all, above[i]/below[i])
		}
	}
	return all
}

// quantile is the value that a share of the others is below of; values are sorted.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
