package postgres

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// proxy stands between a store and its server, and injects network faults.
type proxy struct {
	server string // address for net.Dial
	direct string // the database's URL without the proxy
	ln     net.Listener

	answered atomic.Int64 // how many bytes of answers were passed on

	mu      sync.Mutex
	pairs   map[*pair]struct{}
	hanging chan struct{} // nil: bytes flow; else until it is closed they do not
	refuse  bool
	commit  func(*pair, []byte) // takes over a COMMIT; nil: it is passed on
	stop    func([]byte) int    // bytes of a message to forward before going silent; negative: continue. nil: always continue
	limit   int                 // after so many bytes of answers a connection is cut; 0: never
	pace    time.Duration       // how long a kilobyte of an answer takes; 0: no time
	paceUp  time.Duration       // how long a kilobyte of a question takes
}

// pair is one connection through the proxy.
type pair struct{ client, server net.Conn }

func (p *pair) cut() {
	_ = p.client.Close()
	_ = p.server.Close()
}

// newProxy returns a proxy and the URL of the database through it.
func newProxy(t *testing.T, database string) (*proxy, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	network, address := pgxNetwork(cfg)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{server: address, direct: database, ln: ln, pairs: map[*pair]struct{}{}}
	go p.serve(network)
	t.Cleanup(func() {
		_ = ln.Close()
		p.resume()
		p.cutAll()
	})
	u, err := url.Parse(database)
	require.NoError(t, err)
	q := u.Query()
	q.Del("host")
	q.Set("sslmode", "disable") // so that the proxy can read the messages
	u.Host, u.RawQuery = ln.Addr().String(), q.Encode()
	return p, u.String()
}

func pgxNetwork(cfg *pgx.ConnConfig) (network, address string) {
	if strings.HasPrefix(cfg.Host, "/") {
		return "unix", fmt.Sprintf("%s/.s.PGSQL.%d", cfg.Host, cfg.Port)
	}
	return "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
}

func (p *proxy) serve(network string) {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse := p.refuse
		p.mu.Unlock()
		if refuse {
			_ = client.Close()
			continue
		}
		server, err := net.Dial(network, p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pair{client, server}
		p.mu.Lock()
		p.pairs[c] = struct{}{}
		p.mu.Unlock()
		go p.answers(c)
		go p.questions(c)
	}
}

// wait returns when bytes may flow.
func (p *proxy) wait() {
	p.mu.Lock()
	hanging := p.hanging
	p.mu.Unlock()
	if hanging != nil {
		<-hanging
	}
}

// answers forwards messages of the server.
func (p *proxy) answers(c *pair) {
	defer c.cut()
	buf := make([]byte, 64<<10)
	for sent := 0; ; {
		n, err := c.server.Read(buf)
		p.wait()
		p.mu.Lock()
		limit, pace := p.limit, p.pace
		p.mu.Unlock()
		time.Sleep(pace * time.Duration(n) / 1024) // a line, not a wait for something
		if sent += n; limit > 0 && sent > limit {
			return
		}
		p.answered.Add(int64(n))
		if _, writeErr := c.client.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// questions forwards messages of the client, one by one
// (https://www.postgresql.org/docs/current/protocol-message-formats.html).
func (p *proxy) questions(c *pair) {
	in := bufio.NewReader(c.client)
	first := true
	for {
		message, err := readMessage(in, first)
		p.wait()
		if err != nil {
			// Not cut: data in flight still reaches the server after the client is gone.
			return
		}
		first = false
		p.mu.Lock()
		commit, stop, pace := p.commit, p.stop, p.paceUp
		p.mu.Unlock()
		if stop != nil {
			if n := stop(message); n >= 0 {
				_, _ = c.server.Write(message[:n])
				return // both ends stay open
			}
		}
		time.Sleep(pace * time.Duration(len(message)) / 1024) // a line, not a wait for something
		if commit != nil && message[0] == 'Q' && strings.EqualFold(strings.TrimRight(string(message[5:]), "\x00"), "commit") {
			commit(c, message)
			continue
		}
		if _, err := c.server.Write(message); err != nil {
			return
		}
	}
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
	message := make([]byte, head+length)
	_, err = io.ReadFull(in, message)
	return message, err
}

// onCommit hands every COMMIT to f instead of the server.
func (p *proxy) onCommit(f func(*pair, []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commit = f
}

// stopWhen passes every message to f, which returns how many bytes to forward before the connection goes silent, as if the
// client was stopped or cut off; negative: forward all and continue.
func (p *proxy) stopWhen(f func(message []byte) int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop = f
}

// hang accepts connections, reads from them, and never answers.
func (p *proxy) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hanging = make(chan struct{})
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hanging != nil {
		close(p.hanging)
		p.hanging = nil
	}
}

// refuseAll closes every connection at once that is made from now on, or no more.
func (p *proxy) refuseAll(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// cutAfter cuts every connection that has been answered with so many bytes; 0: none.
func (p *proxy) cutAfter(limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
}

// setPace makes every kilobyte of an answer take so long.
func (p *proxy) setPace(pace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace = pace
}

// setPaceUp makes every kilobyte of a question take so long.
func (p *proxy) setPaceUp(pace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paceUp = pace
}

// cutClients closes the clients' side, and leaves data in flight to the server.
func (p *proxy) cutClients() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		_ = c.client.Close()
	}
}

func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.cut()
	}
	clear(p.pairs)
}
