// Package trial reads the object of informd try from a file, and prints the outcome of the trial.
package trial
