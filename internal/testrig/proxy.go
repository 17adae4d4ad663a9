package testrig

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Trouble is the disturbance of a Proxy's connections. The zero value is none.
type Trouble struct {
	// Refuse closes new connections at once.
	Refuse bool
	// Delay delays every piece of data in both directions.
	Delay time.Duration
	// Silent holds back all data until the trouble ends; connections stay open.
	Silent bool
	// CutAfter returns the number of further bytes of answers after which a connection is cut; nil: no limit.
	CutAfter func() int
	// Commit takes over every COMMIT, and the connection continues when it returns; nil: it is forwarded.
	Commit func(c *Conn, message []byte)
	// Message returns how many bytes of a message to forward before the connection goes silent, as if the client was stopped;
	// negative: forward all and continue. nil: as negative.
	Message func(message []byte) int
	// Rate and RequestRate limit all answers and all requests together, in bytes per second; 0: unlimited.
	Rate, RequestRate int
}

// UnansweredCommit delivers a COMMIT after disconnecting the client: it is a [Trouble.Commit].
func UnansweredCommit(c *Conn, message []byte) {
	c.DropClient()
	c.Deliver(message)
}

// LateCommit returns a [Trouble.Commit] that disconnects the client, and delivers the COMMIT after a time.
func LateCommit(lateness time.Duration) func(*Conn, []byte) {
	return func(c *Conn, message []byte) {
		c.DropClient()
		time.Sleep(lateness)
		c.Deliver(message)
	}
}

// LostCommit returns a [Trouble.Commit] that disconnects the client, and the server after a time without the COMMIT.
func LostCommit(lateness time.Duration) func(*Conn, []byte) {
	return func(c *Conn, _ []byte) {
		c.DropClient()
		time.Sleep(lateness)
		c.Cut()
	}
}

// Proxy forwards connections to the database. It parses the PostgreSQL protocol only to find COMMIT messages.
type Proxy struct {
	network, address string
	ln               net.Listener

	mu      sync.Mutex
	trouble Trouble
	over    chan struct{} // closed when the trouble is over
	conns   map[*Conn]struct{}

	answers, requests line
}

// line is one direction of the link.
type line struct {
	bytes atomic.Int64 // forwarded so far
	mu    sync.Mutex
	free  time.Time // when the link has transferred the data so far at its rate
}

// transfer waits for as long as a link of this rate needs for n bytes after all earlier ones; 0: not at all.
func (l *line) transfer(n, rate int) {
	l.bytes.Add(int64(n))
	if rate == 0 {
		return
	}
	l.mu.Lock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(n) * time.Second / time.Duration(rate))
	wait := l.free.Sub(now)
	l.mu.Unlock()
	time.Sleep(wait)
}

// Conn is one connection through a proxy.
type Conn struct {
	client, server net.Conn
	dropped        atomic.Bool
}

// Cut disconnects both sides.
func (c *Conn) Cut() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// DropClient disconnects the client. The server's side stays open until the server closes it, also after [Proxy.Cut].
func (c *Conn) DropClient() {
	c.dropped.Store(true)
	_ = c.client.Close()
}

// Deliver sends a message to the server. An error means that the server is gone.
func (c *Conn) Deliver(message []byte) { _, _ = c.server.Write(message) }

// NewProxy returns a proxy that listens on the loopback address.
func NewProxy(ctx context.Context, network, address string) (*Proxy, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{network: network, address: address, ln: ln, over: make(chan struct{}), conns: map[*Conn]struct{}{}}
	go p.serve(ctx)
	return p, nil
}

// Address returns the proxy's address.
func (p *Proxy) Address() string { return p.ln.Addr().String() }

// Close stops the proxy and cuts its connections.
func (p *Proxy) Close() {
	_ = p.ln.Close()
	p.Set(Trouble{})
	p.Cut()
}

// Set replaces the current trouble.
func (p *Proxy) Set(t Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.over)
	p.trouble, p.over = t, make(chan struct{})
}

// Redirect sends new connections to another server.
func (p *Proxy) Redirect(network, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.network, p.address = network, address
}

func (p *Proxy) upstream() (network, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.network, p.address
}

// Answered returns how many bytes of answers were forwarded.
func (p *Proxy) Answered() int64 { return p.answers.bytes.Load() }

// Cut cuts every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if !c.dropped.Load() {
			c.Cut()
		}
	}
}

func (p *Proxy) currentTrouble() (Trouble, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble, p.over
}

func (p *Proxy) serve(ctx context.Context) {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		if t, _ := p.currentTrouble(); t.Refuse {
			_ = client.Close()
			continue
		}
		network, address := p.upstream()
		server, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &Conn{client: client, server: server}
		p.mu.Lock()
		p.conns[c] = struct{}{}
		p.mu.Unlock()
		go p.copyAnswers(c)
		go p.copyRequests(c)
	}
}

// waitForTrouble applies Delay and Silent, and returns the current trouble.
func (p *Proxy) waitForTrouble() Trouble {
	for {
		t, over := p.currentTrouble()
		if t.Silent {
			<-over
			continue
		}
		if t.Delay > 0 {
			select {
			case <-time.After(t.Delay):
			case <-over:
			}
		}
		return t
	}
}

// copyAnswers forwards data from the server.
func (p *Proxy) copyAnswers(c *Conn) {
	defer func() {
		c.Cut()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	buf := make([]byte, 16<<10)
	left := -1
	for {
		n, err := c.server.Read(buf)
		t := p.waitForTrouble()
		switch {
		case t.CutAfter == nil:
			left = -1
		case left < 0:
			left = t.CutAfter()
		}
		if left >= 0 && n > left {
			_, _ = c.client.Write(buf[:left]) // the client is cut off in any case
			return
		}
		if left >= 0 {
			left -= n
		}
		p.answers.transfer(n, t.Rate)
		if _, writeErr := c.client.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// copyRequests forwards messages of the client (https://www.postgresql.org/docs/current/protocol-message-formats.html).
func (p *Proxy) copyRequests(c *Conn) {
	in := bufio.NewReader(c.client)
	for first := true; ; first = false {
		message, err := readMessage(in, first)
		t := p.waitForTrouble()
		if err != nil {
			if !c.dropped.Load() {
				_ = c.server.Close()
			}
			return
		}
		if t.Message != nil {
			if n := t.Message(message); n >= 0 {
				c.Deliver(message[:n])
				return // both sides stay open
			}
		}
		p.requests.transfer(len(message), t.RequestRate)
		if t.Commit != nil && !first && isCommit(message) {
			t.Commit(c, message)
			continue
		}
		if _, err := c.server.Write(message); err != nil {
			return
		}
	}
}

func isCommit(message []byte) bool {
	return message[0] == 'Q' && strings.EqualFold(strings.TrimRight(string(message[5:]), "\x00"), "commit")
}

// readMessage reads one message. The first message of a connection has no type byte.
func readMessage(in *bufio.Reader, first bool) ([]byte, error) {
	head := 5
	if first {
		head = 4
	}
	start, err := in.Peek(head)
	if err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(start[head-4:])) - 4
	if length < 0 || length > 1<<30 {
		return nil, io.ErrUnexpectedEOF
	}
	message := make([]byte, head+length)
	_, err = io.ReadFull(in, message)
	return message, err
}
