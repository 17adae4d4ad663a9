package cli

import (
	"context"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/urfave/cli/v2"
)

// session is one run of the program.
type session struct {
	*change.Engine
	root *cli.App
}

func newSession(ctx context.Context, env Env) *session {
	return &session{Engine: &change.Engine{Session: conn.New(ctx, env)}}
}
