// Package objects is the store of an informer: objects as compressed JSON, decoded when they are read.
package objects
