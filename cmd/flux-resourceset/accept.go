package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func acceptCommand() *cli.Command {
	return &cli.Command{
		Name: "accept", Usage: "have servers take what a store holds, which they found to be another history or a seed", OnUsageError: usageError,
		Description: "A server whose store has another history than the one it serves, such as a restored backup, an emptied database or the " +
			"wrong one, goes on with what it has, refuses changes and holds the store, so that no other server serves it. One that was empty and filled from SEED_FILE is held as well. Logs and /ready name the reason. This shows what the store has, and with --yes " +
			"notes in its log that servers shall take it. Clusters then uninstall what it does not name.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "replaces", Usage: "only servers that serve this `REVISION:COMMIT-ID`, as /ready names it; without it, all that hold on to something when they see this"},
			&cli.BoolFlag{Name: "yes", Usage: "really do it"},
		},
		Action: acceptHistory,
	}
}

func acceptHistory(c *cli.Context) (err error) {
	db, err := databaseFromFlags(c)
	if err != nil {
		return err
	}
	var replaces fleet.Head
	if text := c.String("replaces"); text != "" {
		if replaces, err = store.ParseHead(text); err != nil {
			return &configError{[]string{"--replaces: " + err.Error()}}
		}
	}
	if db.name() == backendMemory {
		return &configError{[]string{"a memory store has no history that another process could accept"}}
	}
	st, err := db.open(c.Context, !c.Bool("yes"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	snap, err := st.Load(c.Context)
	if err != nil {
		return err
	}
	known, err := historyContains(c, st, replaces)
	if err != nil {
		return err
	}
	describe(c.App.Writer, db.where(), snap)
	if err := describeHold(c.App.Writer, snap); err != nil {
		return err
	}
	switch {
	case known:
		return fmt.Errorf("the store's history contains %s: a server that serves it goes on from there by itself", c.String("replaces"))
	case replaces != fleet.Head{}:
		fmt.Fprintf(c.App.Writer, "%s is not part of this history\n", c.String("replaces"))
	}
	if !c.Bool("yes") {
		fmt.Fprintln(c.App.Writer, "nothing was accepted: say --yes to have servers take this history in place of the one they hold on to")
		return nil
	}
	head, err := store.Accept(c.Context, st, snap.Head, replaces, time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "accepted, as revision %s\n", store.FormatHead(head))
	return err
}

// historyContains tells whether the store's log contains a point of history.
func historyContains(c *cli.Context, st store.Store, head fleet.Head) (bool, error) {
	if head == (fleet.Head{}) {
		return false, nil
	}
	_, err := st.Since(c.Context, head, 1)
	if errors.Is(err, store.ErrDiverged) || errors.Is(err, store.ErrCompacted) {
		return false, nil
	}
	return err == nil, err
}

// maxListedRemovals is how many clusters that lose something are listed.
const maxListedRemovals = 50

// describeHold shows why the store is held, and what clusters would uninstall.
func describeHold(w io.Writer, snap store.Snapshot) error {
	hold := snap.Quarantine
	if hold == nil {
		return nil
	}
	fmt.Fprintf(w, "held since %s: %s\n", hold.At.Format(time.RFC3339), hold.Message(snap.Head))
	next, err := fleet.NewState(fleet.Rules{}, snap.Head, snap.At, snap.Records)
	if err != nil {
		return err
	}
	inputs := 0
	for _, n := range store.Installs(next) {
		inputs += n
	}
	if hold.Reason == store.QuarantineSeeded {
		fmt.Fprintf(w, "what clusters run is not known here; %d clusters would install %d things together, and uninstall what they have beside that\n", next.Clusters(), inputs)
		return nil
	}
	fmt.Fprintf(w, "served: %d clusters, which install %d things together; then: %d clusters, %d things\n", hold.Clusters, hold.Inputs, next.Clusters(), inputs)
	losses := hold.Removals(next)
	for i, line := range losses {
		if i == maxListedRemovals {
			fmt.Fprintf(w, "  and %d more\n", len(losses)-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", line)
	}
	if known := len(hold.Installs); known < hold.Clusters {
		fmt.Fprintf(w, "  of %d more clusters nothing is known here\n", hold.Clusters-known)
	}
	return nil
}

// describe shows what the store has, for people who know what it should have.
func describe(w io.Writer, where string, snap store.Snapshot) {
	documents := map[fleet.Kind]int{}
	for _, r := range snap.Records {
		documents[r.Kind]++
	}
	fmt.Fprintf(w, "%s ends with revision %s", where, store.FormatHead(snap.Head))
	if !snap.At.IsZero() {
		fmt.Fprintf(w, " of %s", snap.At.Format(time.RFC3339))
	}
	fmt.Fprintf(w, "\n%d documents", len(snap.Records))
	for _, kind := range fleet.Kinds() {
		fmt.Fprintf(w, ", %s: %d", kind, documents[kind])
	}
	fmt.Fprintln(w)
}
