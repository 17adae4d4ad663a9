package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"
)

var formats = []string{"table", "wide", "json", "yaml", "name"}

// output is what a command prints, in any format. Only what the format needs is computed.
type output struct {
	// document is one JSON value.
	document json.RawMessage
	// tables are shown one after the other.
	tables func() ([]table, error)
	// text is shown instead of tables where there is no table to show.
	text func(wide bool) string
	// names are one for each document: "cluster/demo-cluster-01".
	names func() ([]string, error)
	// ends: the document is written to files, in YAML with a mark at its end.
	ends bool
}

// table is rows of cells under a header.
type table struct {
	header []string
	rows   [][]string
	// narrow is how many columns are shown without -o wide; 0: all.
	narrow int
}

// format is the one asked for, or the default: a table for a person, JSON for a program.
func (s *session) format(c *cli.Context) (string, error) {
	f := c.String("output")
	switch {
	case !c.IsSet("output") && s.env.StdoutTerminal:
		return "table", nil
	case !c.IsSet("output"):
		return "json", nil
	case !slices.Contains(formats, f):
		return "", argv.Errorf("there is no output format %q; there are %s", f, argv.ListOf(formats))
	}
	return f, nil
}

// print writes what a read found.
func (s *session) print(c *cli.Context, out output) error {
	format, err := s.format(c)
	if err != nil {
		return err
	}
	return s.printAs(c, format, out)
}

func (s *session) printAs(c *cli.Context, format string, out output) error {
	var b bytes.Buffer
	switch format {
	case "json":
		if err := json.Indent(&b, out.document, "", "  "); err != nil {
			return err
		}
		b.WriteByte('\n')
	case "yaml":
		text, err := yaml.JSONToYAML(escapeForYAML(out.document))
		if err != nil {
			return err
		}
		if out.ends {
			text = []byte(exportHeader + "\n" + string(text) + endMarker + "\n")
		}
		b.Write(text)
	case "name":
		names, err := out.names()
		if err != nil {
			return err
		}
		for _, name := range names {
			b.WriteString(name + "\n")
		}
	default:
		if out.text != nil {
			b.WriteString(out.text(format == "wide"))
			break
		}
		tables, err := out.tables()
		if err != nil {
			return err
		}
		for i, t := range tables {
			if i > 0 {
				b.WriteByte('\n')
			}
			t.write(&b, format == "wide", c.Bool("no-headers"))
		}
	}
	_, err := s.env.Stdout.Write(b.Bytes())
	return err
}

// printChange writes the result of a change, unless --quiet.
func (s *session) printChange(c *cli.Context, out output) error {
	if c.Bool("dry-run") {
		s.note("Dry run: nothing was changed.")
	}
	if c.Bool("quiet") {
		return nil
	}
	return s.print(c, out)
}

// checkOutput refuses a wrong -o before anything is sent.
func (s *session) checkOutput(c *cli.Context) error {
	_, err := s.format(c)
	return err
}

// write pads the cells with spaces. Control characters from the server never reach the terminal as they are.
func (t table) write(w io.Writer, wide, noHeader bool) {
	columns := len(t.header)
	if !wide && t.narrow > 0 {
		columns = t.narrow
	}
	rows := t.rows
	if !noHeader {
		rows = append([][]string{t.header}, rows...)
	}
	widths := make([]int, columns)
	for _, row := range rows {
		for i := range columns {
			row[i] = clean(row[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i := range columns {
			b.WriteString(row[i])
			if i < columns-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(row[i])+3))
			}
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

func clean(cell string) string {
	if cell == "" {
		return "-"
	}
	return strings.ReplaceAll(printable(cell), "\n", "?")
}

// printable takes control characters out of what the server says, so that it cannot steer the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || (r >= 0x7f && r < 0xa0)) {
			return '?'
		}
		return r
	}, text)
}

// encode writes a JSON value without escaping what only matters inside HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
