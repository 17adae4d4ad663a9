package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

func acceptCommand() *cli.Command {
	return &cli.Command{
		Name: "accept", Usage: "accept a quarantined store: a replaced history, or a seed", OnUsageError: usageError,
		Description: "A server whose store has another history than the one it serves, such as a restored backup, an emptied database or the " +
			"wrong one, goes on with what it has, refuses changes and quarantines the store, so that no other server serves it. One that was empty and filled from SEED_FILE is quarantined as well. Logs and /ready name the reason. This shows what the store has, and with --yes " +
			"notes in its log that servers shall take it, and pauses its running rollouts. Clusters then uninstall what it does not name. For a lost SQLite file, --yes creates an empty store, and renames the remaining files of the lost one.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "replaces", Usage: "only for servers that serve this `REVISION:COMMIT-ID`, as shown by /ready; default: all servers that keep an earlier history"},
			&cli.BoolFlag{Name: "yes", Usage: "accept; without this flag the store is only described"},
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
	if lite, ok := db.(sqliteDatabase); ok && !lite.exists() {
		if err := createEmptyStore(c, lite); err != nil || !c.Bool("yes") {
			return err
		}
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
	if err := describeQuarantine(c.App.Writer, snap); err != nil {
		return err
	}
	paused, err := fleet.PauseAutomation(snap.Records)
	if err != nil {
		return err
	}
	for _, ch := range paused {
		switch ch.Kind {
		case fleet.KindRollout:
			fmt.Fprintf(c.App.Writer, "rollout %s is paused by the acceptance\n", ch.ID)
		case fleet.KindSource:
			fmt.Fprintf(c.App.Writer, "source %s is suspended by the acceptance\n", ch.ID)
		default:
			fmt.Fprintf(c.App.Writer, "the version policies of component %s are suspended by the acceptance\n", ch.ID)
		}
	}
	switch {
	case known:
		return fmt.Errorf("the store's history contains %s: a server that serves it continues without acceptance", c.String("replaces"))
	case replaces != fleet.Head{}:
		fmt.Fprintf(c.App.Writer, "%s is not part of this history\n", c.String("replaces"))
	}
	if !c.Bool("yes") {
		fmt.Fprintln(c.App.Writer, nothingAccepted+"with this one")
		return nil
	}
	head, err := store.Accept(c.Context, st, snap.Head, replaces, time.Now(), paused...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "accepted, as revision %s\n", store.FormatHead(head))
	return err
}

const nothingAccepted = "nothing was accepted: use --yes to have servers replace the history that they serve "

// createEmptyStore creates an empty store in place of a lost SQLite file, with --yes. It renames the remaining files of the lost one.
func createEmptyStore(c *cli.Context, db sqliteDatabase) error {
	_, err := db.status(c.Context)
	lost, left := errors.AsType[*sqlite.LostFileError](err)
	switch {
	case left && !c.Bool("yes"):
		fmt.Fprintf(c.App.Writer, "%v\n", err)
	case left:
		names, err := lost.SetAside(time.Now())
		for _, name := range names {
			fmt.Fprintf(c.App.Writer, "the remaining file is kept as %s\n", name)
		}
		if err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		fmt.Fprintf(c.App.Writer, "%s does not exist\n", db.cfg.Path)
	}
	if c.Bool("yes") {
		return db.migrate(c.Context)
	}
	_, err = fmt.Fprintln(c.App.Writer, nothingAccepted+"with an empty store")
	return err
}

// historyContains reports whether the store's log contains a head. A compacted or diverged log does not.
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

// maxListedRemovals limits the list of clusters with removals.
const maxListedRemovals = 50

// describeQuarantine shows why the store is quarantined, and what clusters would uninstall.
func describeQuarantine(w io.Writer, snap store.Snapshot) error {
	hold := snap.Quarantine
	if hold == nil {
		return nil
	}
	if hold.Copied() {
		_, err := fmt.Fprintln(w, hold.Message(snap.Head))
		return err
	}
	fmt.Fprintf(w, "quarantined since %s: %s\n", hold.At.Format(time.RFC3339), hold.Message(snap.Head))
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

// describe prints the contents of the store, so that an operator can compare them with the expected ones.
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
