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

// Trouble is what a Proxy does to the conversations it carries. The zero value passes everything on.
type Trouble struct {
	// Refuse closes new connections at once.
	Refuse bool
	// Delay holds back every piece of what is said, in both directions.
	Delay time.Duration
	// Silent keeps everything to itself until the trouble is over, with the connections open.
	Silent bool
	// CutAfter says how many bytes of answers a connection carries from here on before it is cut, in the middle of
	// whatever it is; nil: it is not.
	CutAfter func() int
	// Commit is what becomes of a COMMIT.
	Commit CommitTrouble
	// Lateness is how long a COMMIT that comes late is under way, and how long a server waits for one that is lost;
	// 0: 700 ms.
	Lateness time.Duration
	// Committing is called when a COMMIT gets into trouble, before anything becomes of it. Nil: nobody is.
	Committing func()
	// Rate is how many bytes of answers a second all connections together carry; 0: as many as there are.
	Rate int
}

// CommitTrouble is what becomes of a COMMIT and its connection.
type CommitTrouble string

const (
	// CommitUnanswered means that the server gets it, the client is cut off and never hears.
	CommitUnanswered CommitTrouble = "unanswered"
	// CommitLost means that the client is cut off and the server never gets it.
	CommitLost CommitTrouble = "lost"
	// CommitLate means that the client is cut off, and the server gets it a moment later.
	CommitLate CommitTrouble = "late"
)

// Proxy stands between one server and the database. It reads the PostgreSQL protocol only as far as it needs to find a
// COMMIT.
type Proxy struct {
	network, address string
	ln               net.Listener

	mu      sync.Mutex
	trouble Trouble
	over    chan struct{} // closed when the trouble is over
	pairs   map[*pair]struct{}
	free    time.Time // when the line has carried what was sent, at the rate it has
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

// Address is where the proxy listens.
func (p *Proxy) Address() string { return p.ln.Addr().String() }

// Close ends the proxy with all it carries.
func (p *Proxy) Close() {
	_ = p.ln.Close()
	p.Set(Trouble{})
	p.Cut()
}

// Set ends the present trouble and begins another one.
func (p *Proxy) Set(t Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.over)
	p.trouble, p.over = t, make(chan struct{})
}

// Redirect has connections that are opened from here on go to another server.
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

// limitRate takes the time that a line of this rate needs for n bytes after all it was given before.
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

// waitForTrouble lets trouble take its time.
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

// copyAnswers passes on what the server says.
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

// copyRequests passes on what the client says, message by message
// (https://www.postgresql.org/docs/current/protocol-message-formats.html).
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

// spare has Cut spare a connection: what is under way on it arrives, or not, by itself.
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
	// The server's side stays open until the server has answered: answers then finds that nobody listens.
}

// readMessage reads one message. The first one of a connection has no type.
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
