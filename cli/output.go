package cli

import (
	"bytes"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/pager"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// format returns the format of -o, or the default: a table at a terminal, JSON elsewhere.
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
		return "", args.Error{Err: err}
	}
	return f, nil
}

// print writes the result of a read.
func (s *session) print(c *cli.Context, out render.Output) error {
	format, err := s.format(c)
	if err != nil {
		return err
	}
	return s.printAs(c, format, out)
}

func (s *session) printAs(c *cli.Context, format string, out render.Output) error {
	style, rows := s.style(format)
	style.NoHeaders = c.Bool("no-headers")
	if !s.env.StdoutTerminal {
		return out.Write(s.env.Stdout, style)
	}
	if tables := out.Tables; tables != nil && format == "table" {
		out.Tables = func() ([]render.Table, error) {
			made, err := tables()
			return render.WithAges(made, s.env.Now()), err
		}
	}
	var text bytes.Buffer
	if err := out.Write(&text, style); err != nil {
		return err
	}
	err := pager.Terminal{Out: s.stdout.terminal(), Err: s.env.Stderr, Rows: rows, Getenv: s.env.Getenv}.Show(c.Context, text.Bytes())
	s.stdout.failed = s.stdout.failed || err != nil
	return err
}

// style returns the style of a format on standard output, and the rows of the terminal; 0: unlimited.
func (s *session) style(format string) (style render.Style, rows int) {
	style.Format = format
	if s.env.StdoutTerminal && s.env.Size != nil {
		style.Width, rows = s.env.Size()
	}
	return style, rows
}

// width returns the characters per line of standard output; 0: unlimited.
func (s *session) width() int {
	style, _ := s.style("")
	return style.Width
}

// printChange writes the result of a change, unless --quiet; at a terminal, the summary line if there is one.
func (s *session) printChange(c *cli.Context, out render.Output) error {
	if c.Bool("dry-run") {
		s.note("Dry run: nothing was changed.")
	}
	if c.Bool("quiet") {
		return nil
	}
	if s.line != "" && s.printsOneLine(c) {
		return s.printLine(s.line)
	}
	return s.print(c, out)
}

// checkOutput rejects a wrong -o before a request is sent.
func (s *session) checkOutput(c *cli.Context) error {
	_, err := s.format(c)
	return err
}
