// Package gateway is an HTTP reverse proxy in front of the API servers, with the faults of
// ingresses, load balancers and default backends. Package chaos calls it.
//
// A Gateway ends TLS and speaks HTTP/2 on both sides. It selects an API server for each
// request. Without a fault it forwards every byte at once. A [Behavior] makes it answer with
// HTML pages, buffer responses, delay headers, speak HTTP/1.1 only or close idle
// connections. Freeze stops it as SIGSTOP stops a process.
//
// The gateway logs in to the API servers with the client configuration that it gets. It
// does not authenticate its clients. Faults of TCP connections are the job of chaos.Link.
package gateway
