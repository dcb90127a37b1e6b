package main

import (
	"math"
	"slices"
	"testing"
)

func TestSpread(t *testing.T) {
	for name, tt := range map[string]struct {
		values []float64
		want   spread
	}{
		"one":                  {[]float64{3}, spread{3, 3, 3, 1}},
		"odd":                  {[]float64{9, 1, 4}, spread{4, 1, 9, 3}},
		"even":                 {[]float64{8, 2, 4, 6}, spread{5, 2, 8, 4}},
		"one was not measured": {[]float64{math.NaN(), 2}, spread{2, 2, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := spreadOf(tt.values); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
	if s := spreadOf(nil); !math.IsNaN(s.Median) || s.Runs != 0 {
		t.Errorf("of nothing: %+v", s)
	}
}

func TestRatiosAreByRound(t *testing.T) {
	got := ratios([]float64{10, 30, 50, 70}, []float64{1, 2, math.NaN(), 0})
	if want := []float64{10, 15}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestQuantile(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64(i+1))
	}
	for share, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(values, share); got != want {
			t.Errorf("%g of 1 to 100: %g, want %g", share, got, want)
		}
	}
}

func TestReached(t *testing.T) {
	for name, tt := range map[string]struct {
		row  row
		want string
	}{
		"at most, kept":    {row{Required: 2, Values: []float64{1, 2, 9}}, "yes"},
		"at most, broken":  {row{Required: 2, Values: []float64{1, 2.1, 9}}, "no"},
		"at least, kept":   {row{Required: 25, More: true, Values: []float64{25}}, "yes"},
		"at least, broken": {row{Required: 25, More: true, Values: []float64{24.9}}, "no"},
		"no bound":         {row{Required: math.NaN(), Values: []float64{1}}, "-"},
		"was not measured": {row{Required: 2}, "not measured"},
		"broke off":        {row{Required: 2, Values: []float64{math.NaN()}}, "not measured"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.row.reached(tt.row.Required); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
