package cli

import (
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// After a change, a terminal shows one line; programs receive the server's response.

// printsOneLine reports whether the output is one line: on a terminal, without a format. The result of a dry run is shown in full.
func (s *session) printsOneLine(c *cli.Context) bool {
	return s.env.StdoutTerminal && !c.IsSet("output") && s.env.Getenv("FRS_OUTPUT") == "" && !c.Bool("dry-run")
}

// printLine prints the line about a change.
func (s *session) printLine(line string) error {
	_, err := fmt.Fprintln(s.env.Stdout, render.Printable(line))
	return err
}

// recordedIn returns a planner that also stores its operations.
func (p planner) recordedIn(in *[]operation) planner {
	return func(conn client) ([]operation, error) {
		ops, err := p(conn)
		*in = slices.Clone(ops)
		return ops, err
	}
}
