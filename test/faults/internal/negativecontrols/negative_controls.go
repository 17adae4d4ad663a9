// Package negativecontrols has the harness's negative controls: bugs that are built into a copy of the server. A harness
// that does not detect them would not detect a real bug either.
package negativecontrols

import (
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/check"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Control is a bug and the run that must detect it.
type Control struct {
	Name        string
	Description string
	Replace     []rig.Replace
	Store       string
	// Faults under load that reveal the bug, or the Damage that does.
	Faults []string
	Damage string
	// Route distributes polls over processes: see history.Run.
	Route string
	// Breaks is the promise that the bug breaks.
	Breaks check.Rule
}

const commitGo = "store/internal/sqlstore/commit.go"

// All returns the controls.
func All() []Control {
	return []Control{
		{
			Name: "asynchronous-commit", Description: "commits are acknowledged before they are on disk: synchronous_commit = off",
			Store: rig.StorePostgres, Faults: []string{"kill-postmaster"}, Breaks: check.Durable,
			Replace: []rig.Replace{{
				File: "store/postgres/store.go",
				Old:  "`SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`",
				New:  "`SELECT set_config('synchronous_commit', 'off', true)`",
			}},
		},
		{
			Name: "rows-error-dropped", Description: "a scan that died in the middle passes for a whole one: rows.Err() is not asked",
			Store: rig.StorePostgres, Faults: []string{"cut-answers"}, Breaks: check.Whole,
			Replace: []rig.Replace{{
				File: "store/internal/sqlstore/sqlstore.go",
				Old:  "\treturn rows.Err()\n",
				New:  "\treturn nil\n",
			}},
		},
		{
			Name: "published-blindly", Description: "a State is published over whatever is there, without compare-and-swap",
			Store: rig.StorePostgres, Faults: []string{"delay", "pause-server"}, Breaks: check.Forward,
			Replace: []rig.Replace{{
				File: "store/replica.go",
				Old:  "\tif r.current.Load() != from {\n\t\treturn false\n\t}\n\tbefore()\n\tr.current.Store(v)\n\tclose(from.replaced)\n\tr.dropChunks(v.state.Head())\n\treturn true\n",
				New:  "\tbefore()\n\tclose(r.current.Swap(v).replaced)\n\tr.dropChunks(v.state.Head())\n\treturn from != nil\n",
			}},
		},
		{
			Name: "half-written", Description: "of the documents that a commit changes, one is stored",
			Store: rig.StoreSQLite, Faults: []string{"kill-server"}, Breaks: check.Whole,
			Replace: []rig.Replace{{
				File: commitGo,
				Old:  "\tif err := applyChanges(",
				New:  "\tif c.Revision > 1 {\n\t\tchanges = changes[:min(1, len(changes))]\n\t}\n\tif err := applyChanges(",
			}, {
				File: commitGo,
				Old:  "\treturn done.check(want)\n",
				New:  "\treturn nil\n",
			}},
		},
		{
			Name: "empty-on-error", Description: "a poll that fails is answered with an empty list",
			Store: rig.StorePostgres, Faults: []string{"start-without-database"}, Breaks: check.NoWrongEmpty,
			Replace: []rig.Replace{{
				File: "server/polls.go",
				Old:  "\tif err != nil {\n\t\treturn err\n\t}\n\tif st.Limited() { // the cluster would lose everything that the State lacks\n",
				New:  "\tif err != nil {\n\t\treturn c.JSONBlob(http.StatusOK, []byte(`{\"inputs\":[]}`))\n\t}\n\tif st.Limited() { // the cluster would lose everything that the State lacks\n",
			}},
		},
		{
			Name: "counter-skipped", Description: "a commit does not look whether the head has moved since it was computed",
			Store: rig.StorePostgres, Faults: []string{"delay", "kill-writing-server"}, Breaks: check.Durable,
			Replace: []rig.Replace{{
				File: commitGo,
				Old:  "\tif now.Head != base {\n\t\treturn fmt.Errorf(\"%w: it is revision %d, not %d\", store.ErrStale, now.Revision, base.Revision)\n\t}\n",
				New:  "\tbase = now.Head\n\tc.Revision = base.Revision + 1\n",
			}},
		},
		{
			Name: "unknown-as-failed", Description: "a commit whose answer was lost is reported as not made, without looking",
			Store: rig.StorePostgres, Faults: []string{"cut-commit", "delay-commit"}, Breaks: check.Durable,
			Replace: []rig.Replace{{
				File: "store/postgres/commit.go",
				Old:  "\tif job.Commit == uuid.Nil {\n",
				New:  "\tif job.Commit == uuid.Nil || ctx.Err() == nil {\n",
			}},
		},
		{
			Name: "noop-unconfirmed", Description: "a write that finds nothing to do in this process's copy is acknowledged without asking the store",
			Store: rig.StorePostgres, Faults: []string{"silence", "refuse"}, Breaks: check.Fresh,
			Replace: []rig.Replace{{
				File: "store/replica_update.go",
				Old:  "\t\t\tfresh, asking := r.confirmHead(ctx, from, &seen)\n",
				New:  "\t\t\t_ = seen\n\t\t\tfresh, asking := true, error(nil)\n",
			}},
		},
		{
			Name: "age-ignored", Description: "polls are answered from a copy however old it is",
			Store: rig.StorePostgres, Faults: []string{"silence", "refuse"}, Breaks: check.Age,
			Replace: []rig.Replace{{
				File: "store/staleness.go",
				Old:  "if limit > 0 && age > limit {",
				New:  "if limit > 0 && age > 1<<20*limit {",
			}},
		},
		{
			Name: "age-ignored-by-a-balancer", Description: "polls are answered from a copy however old it is, and a balancer sends each to any process",
			Store: rig.StorePostgres, Faults: []string{"silence", "refuse"}, Route: history.RouteRandom, Breaks: check.Across,
			Replace: []rig.Replace{{
				File: "store/staleness.go",
				Old:  "if limit > 0 && age > limit {",
				New:  "if limit > 0 && age > 1<<20*limit {",
			}},
		},
		{
			Name: "authority-unchecked", Description: "permissions are checked when a request arrives, but not again in the State that its change is based on",
			Store: rig.StorePostgres, Faults: []string{"delay"}, Breaks: check.Authority,
			Replace: []rig.Replace{{
				File: "server/request.go",
				Old:  "\t\tif caller, refusal = s.authorize(r, tx.Base()); refusal != nil {\n",
				New:  "\t\tif caller = r.principal; refusal != nil {\n",
			}},
		},
		{
			Name: "journal-after-publish", Description: "a State is answered from before it is on disk, and the disk takes a moment",
			Store: rig.StorePostgres, Faults: []string{"kill-all-servers", "refuse"}, Breaks: check.Forward,
			Replace: []rig.Replace{{
				File: "store/replica.go",
				Old:  "\tbefore()\n\tr.current.Store(v)\n\tclose(from.replaced)\n",
				New:  "\tr.current.Store(v)\n\tclose(from.replaced)\n\ttime.Sleep(400 * time.Millisecond)\n\tbefore()\n",
			}},
		},
		{
			Name: "reference-skipped", Description: "a reference that leads nowhere shortens the list",
			Store: rig.StorePostgres, Damage: "dangling", Breaks: check.Doubt,
			Replace: []rig.Replace{{
				File: "fleet/answers.go",
				Old:  "\tinputs, deps, err := s.resolveInputs(e, list, nil)\n",
				New:  "\tinputs, deps, err := s.resolveInputs(e, list, nil)\n\tif err != nil && list.kind == KindNamespace {\n\t\tinputs, deps, err = nil, nil, nil\n\t}\n",
			}},
		},
	}
}
