package proc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
)

// Ports come from below the range that the kernel takes the local ports of
// outgoing connections from (32768 and up on Linux). From inside that range, a
// connection could occupy the port of a server that is down for a restart; a
// client that dials the server could even be connected to itself.
const (
	firstPort = 20000
	lastPort  = 29999
	portTries = 200
)

// Port is a free loopback port. On Linux it is reserved for this process until
// Release, as far as users of this package go, also while nothing listens on it.
type Port struct {
	Number int
	hold   net.Listener // nil where there are no abstract sockets
}

// FreePort finds and reserves a port.
func FreePort() (*Port, error) {
	for range portTries {
		number := firstPort + rand.IntN(lastPort-firstPort+1)
		hold, err := reserve(number)
		if err != nil {
			continue
		}
		port := &Port{Number: number, hold: hold}
		listener, err := listen("tcp", port.Address())
		if err != nil {
			port.Release()
			continue
		}
		_ = listener.Close()
		return port, nil
	}
	return nil, errors.New("find a free loopback port: all tries failed")
}

// Address returns the port as host:port.
func (p *Port) Address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number))
}

// Release ends the reservation.
func (p *Port) Release() {
	if p.hold != nil {
		_ = p.hold.Close()
	}
}

// reserve binds an abstract socket named after the port. It exists in no file
// system and ends with its process, so a reservation cannot be left behind.
func reserve(number int) (net.Listener, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	return listen("unix", fmt.Sprintf("@informd-test-port-%d", number))
}

func listen(network, address string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(context.Background(), network, address) // does not block
}
