package rig

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
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
	// Commit is the fate of a COMMIT.
	Commit CommitTrouble
	// Lateness is the delay of a late COMMIT, and the time before the connection of a lost one is closed; 0: 700 ms.
	Lateness time.Duration
	// Committing is called before a COMMIT is disturbed. May be nil.
	Committing func()
	// Rate limits all answers together, in bytes per second; 0: unlimited.
	Rate int
}

// CommitTrouble is the fate of a COMMIT and its connection.
type CommitTrouble string

const (
	// CommitUnanswered means that the server receives it, but the client is disconnected before the answer.
	CommitUnanswered CommitTrouble = "unanswered"
	// CommitLost means that the client is disconnected, and the server never receives it.
	CommitLost CommitTrouble = "lost"
	// CommitLate means that the client is disconnected, and the server receives it later.
	CommitLate CommitTrouble = "late"
)

// Proxy forwards connections to the database. It parses the PostgreSQL protocol only to find COMMIT messages.
type Proxy struct {
	network, address string
	ln               net.Listener

	mu      sync.Mutex
	trouble Trouble
	over    chan struct{} // closed when the trouble is over
	pairs   map[*pair]struct{}
	free    time.Time // when the link has transferred the data so far at its rate
}

type pair struct{ client, server net.Conn }

func (c *pair) cut() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// NewProxy returns a proxy that listens on the loopback address.
func NewProxy(ctx context.Context, network, address string) (*Proxy, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{network: network, address: address, ln: ln, over: make(chan struct{}), pairs: map[*pair]struct{}{}}
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

// limitRate waits for as long as a link of this rate needs for n bytes after all earlier ones.
func (p *Proxy) limitRate(n, rate int) {
	p.mu.Lock()
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(n) * time.Second / time.Duration(rate))
	wait := time.Until(p.free)
	p.mu.Unlock()
	time.Sleep(wait)
}

// Cut cuts every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.cut()
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
		c := &pair{client, server}
		p.mu.Lock()
		p.pairs[c] = struct{}{}
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
func (p *Proxy) copyAnswers(c *pair) {
	defer func() {
		c.cut()
		p.mu.Lock()
		delete(p.pairs, c)
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
		if t.Rate > 0 {
			p.limitRate(n, t.Rate)
		}
		if _, writeErr := c.client.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// copyRequests forwards messages of the client (https://www.postgresql.org/docs/current/protocol-message-formats.html).
func (p *Proxy) copyRequests(c *pair) {
	in := bufio.NewReader(c.client)
	for first := true; ; first = false {
		message, err := readMessage(in, first)
		t := p.waitForTrouble()
		if err != nil {
			_ = c.server.Close()
			return
		}
		if t.Commit != "" && !first && isCommit(message) {
			p.spare(c)
			if t.Committing != nil {
				t.Committing()
			}
			troubleCommit(c, t, message)
			return
		}
		if _, err := c.server.Write(message); err != nil {
			return
		}
	}
}

func isCommit(message []byte) bool {
	return message[0] == 'Q' && strings.EqualFold(strings.TrimRight(string(message[5:]), "\x00"), "commit")
}

// spare excludes a connection from Cut, because its COMMIT has its own fate.
func (p *Proxy) spare(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
}

func troubleCommit(c *pair, t Trouble, message []byte) {
	lateness := cmp.Or(t.Lateness, 700*time.Millisecond)
	_ = c.client.Close()
	switch t.Commit {
	case CommitUnanswered:
		_, _ = c.server.Write(message)
	case CommitLate:
		time.Sleep(lateness)
		_, _ = c.server.Write(message)
	case CommitLost:
		time.Sleep(lateness)
		_ = c.server.Close()
	}
	// The server's side stays open until the server answers; copyAnswers then fails to write to the client.
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
