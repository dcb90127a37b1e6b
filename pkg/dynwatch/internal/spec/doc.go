// Package spec is the checked form of a wanted resource: what one target watches, and which
// requests that takes. Package dynwatch makes it of a Resource.
package spec
