package conn

import (
	"bytes"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/pager"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// Connected is [args.WithOperands] with a connection to the server.
func (s *Session) Connected(run func(c *cli.Context, client Client, operands []string) error) cli.ActionFunc {
	return args.WithOperands(func(c *cli.Context, operands []string) error {
		client, err := s.Connect(c)
		if err != nil {
			return err
		}
		return run(c, client, operands)
	})
}

// Format returns the format of -o, or the default: a table at a terminal, JSON elsewhere.
func (s *Session) Format(c *cli.Context) (string, error) {
	f, given := c.String("output"), c.IsSet("output")
	if usual := s.Env.Getenv("FRS_OUTPUT"); !given && usual != "" {
		f, given = usual, true
	}
	switch {
	case !given && s.Env.StdoutTerminal:
		return "table", nil
	case !given:
		return "json", nil
	}
	if err := render.Check(f); err != nil {
		return "", args.Error{Err: err}
	}
	return f, nil
}

// Print writes the result of a read.
func (s *Session) Print(c *cli.Context, out render.Output) error {
	format, err := s.Format(c)
	if err != nil {
		return err
	}
	return s.PrintAs(c, format, out)
}

// PrintAs writes the result of a read in a format.
func (s *Session) PrintAs(c *cli.Context, format string, out render.Output) error {
	style, rows := s.Style(format)
	style.NoHeaders = c.Bool("no-headers")
	if !s.Env.StdoutTerminal {
		return out.Write(s.Env.Stdout, style)
	}
	if tables := out.Tables; tables != nil && format == "table" {
		out.Tables = func() ([]render.Table, error) {
			made, err := tables()
			return render.WithAges(made, s.Env.Now()), err
		}
	}
	var text bytes.Buffer
	if err := out.Write(&text, style); err != nil {
		return err
	}
	err := pager.Terminal{Out: s.Stdout.Terminal(), Err: s.Env.Stderr, Rows: rows, Getenv: s.Env.Getenv}.Show(c.Context, text.Bytes())
	s.Stdout.failed = s.Stdout.failed || err != nil
	return err
}

// Style returns the style of a format on standard output, and the rows of the terminal; 0: unlimited.
func (s *Session) Style(format string) (style render.Style, rows int) {
	style.Format = format
	if s.Env.StdoutTerminal && s.Env.Size != nil {
		style.Width, rows = s.Env.Size()
	}
	return style, rows
}

// Width returns the characters per line of standard output; 0: unlimited.
func (s *Session) Width() int {
	style, _ := s.Style("")
	return style.Width
}

// PrintChange writes the result of a change, unless --quiet; at a terminal, the summary line if there is one.
func (s *Session) PrintChange(c *cli.Context, out render.Output) error {
	if c.Bool("dry-run") {
		s.Note("Dry run: nothing was changed.")
	}
	if c.Bool("quiet") {
		return nil
	}
	if s.Line != "" && s.PrintsOneLine(c) {
		return s.PrintLine(s.Line)
	}
	return s.Print(c, out)
}

// CheckOutput rejects a wrong -o before a request is sent.
func (s *Session) CheckOutput(c *cli.Context) error {
	_, err := s.Format(c)
	return err
}

// After a change, a terminal shows one line; programs receive the server's response.

// PrintsOneLine reports whether the output is one line: on a terminal, without a format. The result of a dry run is shown in full.
func (s *Session) PrintsOneLine(c *cli.Context) bool {
	return s.Env.StdoutTerminal && !c.IsSet("output") && s.Env.Getenv("FRS_OUTPUT") == "" && !c.Bool("dry-run")
}

// PrintLine prints the line about a change.
func (s *Session) PrintLine(line string) error {
	_, err := fmt.Fprintln(s.Env.Stdout, render.Printable(line))
	return err
}

// Connect checks the output format before a request is sent, and connects.
func (s *Session) Connect(c *cli.Context) (Client, error) {
	if err := s.CheckOutput(c); err != nil {
		return nil, err
	}
	return s.Connection.Client(c)
}
