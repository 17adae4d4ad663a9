// Package change makes changes of the fleet: from operations through their plan and its confirmation to the request, and the result.
//
// To read it from the beginning: targets.go selects clusters and layers, batch.go has operations, change.go makes a change of them,
// plan.go and confirm.go show and confirm its effect, rollout.go creates a rollout instead, and documents.go prints the result of
// a change of one document. flags.go has the flags that all changes share.
package change

import (
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Engine makes the change of a run.
type Engine struct {
	*conn.Session
	planned api.Plan // the last plan of the change; without a hash: none was made
}
