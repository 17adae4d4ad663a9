package rig

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// Follow starts a standby that replicates the server through its own proxy.
func (p *Postgres) Follow(ctx context.Context) error {
	line, err := testrig.NewProxy(ctx, "unix", p.Server.Socket())
	if err != nil {
		return err
	}
	p.line = line
	host, port, err := net.SplitHostPort(line.Address())
	if err != nil {
		return err
	}
	p.Standby, err = p.Server.StartStandby("primary_conninfo=host=" + host + " port=" + port + " user=postgres sslmode=disable gssencmode=disable")
	return err
}

// Part cuts the standby's replication: it lacks all later commits.
func (p *Postgres) Part() {
	p.line.Set(testrig.Trouble{Refuse: true})
	p.line.Cut()
}

// FailOver kills the server and promotes the standby in its place.
func (p *Postgres) FailOver(ctx context.Context) error {
	p.Server.Stop(syscall.SIGKILL)
	if err := Exec(ctx, p.Standby.URL("postgres"), "SELECT pg_promote()"); err != nil {
		return fmt.Errorf("promoting the standby: %w", err)
	}
	p.Server, p.Standby = p.Standby, p.Server
	for _, proxy := range p.Proxies {
		proxy.Redirect("unix", p.Server.Socket())
		proxy.Cut()
	}
	return nil
}
