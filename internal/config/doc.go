// Package config has the settings of informd, their defaults, and the differences between two
// configs. Package configfile reads and checks them.
package config
