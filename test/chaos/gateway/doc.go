// Package gateway is an HTTP reverse proxy in front of the API servers, with the
// faults of real ones: ingresses, load balancers and default backends.
//
// A Gateway ends TLS and speaks HTTP/2 on both sides. It picks an API server for
// each request. Without a fault it passes every byte on at once. A [Behavior]
// makes it answer with HTML pages, buffer responses, delay headers, speak
// HTTP/1.1 only or close idle connections. Freeze stops it as SIGSTOP stops a
// process.
//
// The gateway logs in to the API servers itself, with the client configuration
// that it gets. It does not know its own clients. Package chaos is its caller.
// Raw TCP faults are the job of chaos.Link.
package gateway
