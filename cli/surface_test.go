package cli

import (
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
)

// Limits of the command line, which only shrink: a new command or flag needs a reason why no other one does it.
const (
	maxCommands = 108
	maxFlags    = 199
)

// TestSurface counts the commands that help lists and do something, and the names of their flags. A command that takes a kind, such as
// get, is one command.
func TestSurface(t *testing.T) {
	t.Parallel()
	app := testSession().app()
	commands, flags := 0, map[string]bool{}
	for _, f := range args.VisibleFlags(app.Flags) {
		flags[f.Names()[0]] = true
	}
	for _, path := range leaves(app.Commands) {
		hidden := false
		for _, cmd := range path {
			hidden = hidden || cmd.Hidden
		}
		if hidden {
			continue
		}
		if len(path) < 2 || !args.TakesKind(path[len(path)-2]) {
			commands++
		}
		for _, f := range args.VisibleFlags(path[len(path)-1].Flags) {
			flags[f.Names()[0]] = true
		}
	}
	t.Logf("%d commands, %d flags", commands, len(flags))
	if commands > maxCommands || len(flags) > maxFlags {
		t.Errorf("%d commands and %d flags, at most %d and %d", commands, len(flags), maxCommands, maxFlags)
	}
}
