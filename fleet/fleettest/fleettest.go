// Package fleettest has fleets for tests of the packages that import fleet.
package fleettest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fixtures"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// World is a fleet under test. Its clock moves only when a test moves it.
type World struct {
	T     *testing.T
	State *fleet.State
	Now   time.Time
	Actor string // of the commits
	Log   Log
}

// New returns a fleet with some documents, which are pairs of a kind and a document.
func New(t *testing.T, docs ...string) *World {
	t.Helper()
	rules := fleet.Rules{Environments: []string{"dev", "qa", "uat", "prod"}, MaxRemovals: 1 << 20}
	empty, err := fleet.NewState(rules, fleet.Head{}, time.Time{}, nil)
	require.NoError(t, err)
	w := &World{T: t, State: empty, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"}
	var edits []Edit
	for pair := range slices.Chunk(docs, 2) {
		edits = append(edits, Create(fleet.Kind(pair[0]), pair[1]))
	}
	if len(edits) > 0 {
		w.Must(edits...)
	}
	return w
}

// Tiers returns the fleet [fixtures.Tiers].
func Tiers(t *testing.T, layers ...string) *World {
	t.Helper()
	return New(t, fixtures.Tiers(layers...)...)
}

// Edit is an edit of a fleet.
type Edit func(*fleet.Tx) error

// Try runs edits in one commit without keeping it.
func (w *World) Try(edits ...Edit) (fleet.Result, error) {
	tx := w.State.Begin()
	for _, edit := range edits {
		if err := edit(tx); err != nil {
			return fleet.Result{}, err
		}
	}
	return tx.Finish(fleet.Commit{ID: uuid.New(), At: w.Now, Actor: w.Actor})
}

// Must runs edits in one commit and keeps it.
func (w *World) Must(edits ...Edit) fleet.Result {
	w.T.Helper()
	res, err := w.Try(edits...)
	require.NoError(w.T, err)
	w.Keep(res)
	return res
}

// Keep makes a result the fleet.
func (w *World) Keep(res fleet.Result) {
	if len(res.Commit.Changes) > 0 {
		w.Log.Commits = append(w.Log.Commits, res.Commit)
	}
	w.State = res.State
}

// Document returns a document, which must exist.
func (w *World) Document(kind fleet.Kind, id string) *fleet.Document {
	w.T.Helper()
	doc, err := w.State.Find(kind, id)
	require.NoError(w.T, err)
	return doc
}

// Create creates a document.
func Create(kind fleet.Kind, body string) Edit {
	return func(tx *fleet.Tx) error { _, err := tx.Create(kind, []byte(body)); return err }
}

// Put replaces the given fields of a document.
func Put(kind fleet.Kind, id, body string) Edit {
	return func(tx *fleet.Tx) error { _, err := tx.Put(kind, id, []byte(body)); return err }
}

// Patch merges fields into a document.
func Patch(kind fleet.Kind, id, body string) Edit {
	return func(tx *fleet.Tx) error { _, err := tx.Patch(kind, id, []byte(body)); return err }
}

// Delete deletes a document.
func Delete(kind fleet.Kind, id string) Edit {
	return func(tx *fleet.Tx) error { _, err := tx.Delete(kind, id, fleet.DeleteOptions{}); return err }
}

// Assign assigns a definition to a cluster.
func Assign(cluster string, kind fleet.Kind, id, settings string) Edit {
	return func(tx *fleet.Tx) error { _, err := tx.Assign(cluster, kind, id, []byte(settings)); return err }
}

// Unguarded lifts the limits of removals for the following edits.
func Unguarded(tx *fleet.Tx) error {
	tx.Guard(fleet.Guard{Off: true})
	return nil
}

// Batch runs operations.
func Batch(ops ...string) Edit {
	return func(tx *fleet.Tx) error {
		var parsed []api.Operation
		if err := json.Unmarshal([]byte("["+strings.Join(ops, ",")+"]"), &parsed); err != nil {
			return err
		}
		_, err := fleet.NewBatch(tx, nil).Run(parsed)
		return err
	}
}

// CreateRollout creates a rollout with operations in JSON.
func (w *World) CreateRollout(id string, stages []fleet.RolloutStage, ops ...string) Edit {
	return func(tx *fleet.Tx) error {
		var parsed []api.Operation
		if err := json.Unmarshal([]byte("["+strings.Join(ops, ",")+"]"), &parsed); err != nil {
			return err
		}
		_, err := tx.CreateRollout(fleet.NewRollout{ID: id, Stages: stages, Operations: parsed}, &w.Log)
		return err
	}
}

// ChangeRollout runs an action on a rollout.
func ChangeRollout(id, action string) Edit {
	return func(tx *fleet.Tx) error { _, err := tx.ChangeRollout(id, action, ""); return err }
}
