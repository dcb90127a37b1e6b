package relay_test

import (
	"bytes"
	"net"
)

// InProcessConn implements the client library's InProcessConnProvider.
func (b *bench) InProcessConn() (net.Conn, error) {
	conn, err := b.server.InProcessConn()
	return lossy{conn, b}, err
}

// lossy loses the answer to one request of its bench.
type lossy struct {
	net.Conn
	bench *bench
}

// answerNothing loses the answer to the next request to a subject, and calls then when the
// request is sent.
func (b *bench) answerNothing(subject string, then func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unanswered, b.then = []byte("PUB "+subject+" _INBOX."), then
}

func (l lossy) Write(data []byte) (int, error) {
	l.bench.mu.Lock()
	wanted, then := l.bench.unanswered, l.bench.then
	at := -1
	if wanted != nil {
		at = bytes.Index(data, wanted)
	}
	if at >= 0 {
		l.bench.unanswered = nil
		data = bytes.Clone(data)
		data[at+len(wanted)-2] = 'Z'
	}
	l.bench.mu.Unlock()
	if at >= 0 {
		then()
	}
	return l.Conn.Write(data)
}
