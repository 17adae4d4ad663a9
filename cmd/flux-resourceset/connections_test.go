package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two thousand idle connections, new ones or after a poll, use little memory and do not block other clients. More of them
// reach the limit of open files on some machines, for the tests beside this one as well.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	const most = 2_000
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed)
	p.get(demoPolls + "namespaces")
	before := p.peakMemory()
	conns := make([]net.Conn, 0, most)
	t.Cleanup(func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	for i := range most {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.Base, "http://"))
		require.NoError(t, err, "connection %d: see ulimit -n", i)
		conns = append(conns, conn)
		if i%10 == 0 { // idle after a poll, as Flux Operator leaves it
			_, err = fmt.Fprintf(conn, "GET %snamespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", demoPolls, readToken)
			require.NoError(t, err)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusOK, res.StatusCode)
		}
	}
	each := (p.peakMemory() - before) / most
	t.Logf("%d bytes of memory for each of %d connections", each, most)
	require.Less(t, each, 64<<10)
	p.get(demoPolls + "namespaces")
	require.NoError(t, p.Signal(os.Interrupt))
	require.Equal(t, 0, p.exit(), "%s", p.Log())
}

// peakMemory returns the program's peak memory, in bytes.
func (p *program) peakMemory() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if os.IsNotExist(err) {
		p.t.Skip("there is no /proc to read the memory of a program from")
	}
	require.NoError(p.t, err)
	for line := range strings.Lines(string(status)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	require.Fail(p.t, "no VmHWM", "%s", status)
	return 0
}
