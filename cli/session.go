package cli

import (
	"context"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluximport"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// Env is the environment of a run.
type Env = conn.Env

// OfflineFleet computes a fleet in this process, by the rules of the server.
type OfflineFleet = fluximport.Fleet

// session is one run of the program.
type session struct {
	*change.Engine
	root *cli.App
}

func newSession(ctx context.Context, env Env) *session {
	return &session{Engine: &change.Engine{Session: conn.New(ctx, env)}}
}

// The commands of nouns with several files, or with verbs that other nouns have too.
type (
	authCommands      struct{ *session }
	bootstrapper      struct{ *session }
	clusterCommands   struct{ *session }
	componentCommands struct{ *session }
	ownershipCommands struct{ *session }
	revisionCommands  struct{ *session }
	rolloutCommands   struct{ *session }
	tokenCommands     struct{ *session }
	versionCommands   struct{ *session }
)

// kindCommands are the commands that every kind has.
type kindCommands struct {
	*session
	kinds.Kind
}
