package cli

import (
	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// format is the one asked for, or the default: a table for a person, JSON for a program.
func (s *session) format(c *cli.Context) (string, error) {
	f, given := c.String("output"), c.IsSet("output")
	if usual := s.env.Getenv("FRS_OUTPUT"); !given && usual != "" {
		f, given = usual, true
	}
	switch {
	case !given && s.env.StdoutTerminal:
		return "table", nil
	case !given:
		return "json", nil
	}
	if err := render.Check(f); err != nil {
		return "", argv.Error{Err: err}
	}
	return f, nil
}

// print writes what a read found.
func (s *session) print(c *cli.Context, out render.Output) error {
	format, err := s.format(c)
	if err != nil {
		return err
	}
	return s.printAs(c, format, out)
}

func (s *session) printAs(c *cli.Context, format string, out render.Output) error {
	return out.Write(s.env.Stdout, format, c.Bool("no-headers"))
}

// printChange writes the result of a change, unless --quiet: to a person in the line about it, where there is one.
func (s *session) printChange(c *cli.Context, out render.Output) error {
	if c.Bool("dry-run") {
		s.note("Dry run: nothing was changed.")
	}
	if c.Bool("quiet") {
		return nil
	}
	if s.line != "" && s.terse(c) {
		return s.say(s.line)
	}
	return s.print(c, out)
}

// checkOutput refuses a wrong -o before anything is sent.
func (s *session) checkOutput(c *cli.Context) error {
	_, err := s.format(c)
	return err
}
