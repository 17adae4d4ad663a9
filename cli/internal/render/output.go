// Package render writes what the API answered: as tables for people, as JSON and YAML for programs, and as the difference of
// two documents. What comes from the server cannot steer the terminal.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Formats are those of -o.
var Formats = []string{"table", "wide", "json", "yaml", "name"}

// Output is what a command prints, in any format. Only what the format needs is computed.
type Output struct {
	// Document is one JSON value.
	Document json.RawMessage
	// Tables are shown one after the other.
	Tables func() ([]Table, error)
	// Text is shown instead of tables where there is no table to show.
	Text func(wide bool) string
	// Names are one for each document: "cluster/demo-cluster-01".
	Names func() ([]string, error)
	// Ends: the document is written to files, in YAML with a mark at its end.
	Ends bool
}

// Table is rows of cells under a header.
type Table struct {
	Header []string
	Rows   [][]string
	// Narrow is how many columns are shown without -o wide; 0: all.
	Narrow int
}

// Without is the table without one of the columns that are always shown.
func (t Table) Without(column int) Table {
	out := Table{Header: slices.Delete(slices.Clone(t.Header), column, column+1), Narrow: max(t.Narrow-1, 0)}
	for _, row := range t.Rows {
		out.Rows = append(out.Rows, slices.Delete(slices.Clone(row), column, column+1))
	}
	return out
}

// An export in YAML starts with a line that says what it is, and ends with YAML's own mark for the end of a document: a
// file that was cut off in the middle is often still YAML, but says that there is less than there was.
const (
	ExportHeader = "# Exported by flux-resourceset-cli. The line \"...\" at the end shows that nothing is missing."
	EndMarker    = "..."
)

// Style is how output is written.
type Style struct {
	Format    string // one of [Formats] or [Templates]
	NoHeaders bool
	Width     int // of the lines of tables, in characters; 0: any
}

// Write writes it in one of [Formats] or [Templates].
func (out Output) Write(w io.Writer, as Style) error {
	format := as.Format
	var b bytes.Buffer
	template, err := compile(format)
	if err != nil {
		return err
	}
	switch {
	case template != nil:
		if err := out.writeTemplate(&b, template, as); err != nil {
			return err
		}
	case format == "json":
		if err := json.Indent(&b, out.Document, "", "  "); err != nil {
			return err
		}
		b.WriteByte('\n')
	case format == "yaml":
		text, err := yaml.JSONToYAML(EscapeForYAML(out.Document))
		if err != nil {
			return err
		}
		if out.Ends {
			text = []byte(ExportHeader + "\n" + string(text) + EndMarker + "\n")
		}
		b.Write(text)
	case format == "name":
		names, err := out.Names()
		if err != nil {
			return err
		}
		for _, name := range names {
			b.WriteString(name + "\n")
		}
	default:
		if out.Text != nil {
			b.WriteString(out.Text(format == "wide"))
			break
		}
		tables, err := out.Tables()
		if err != nil {
			return err
		}
		for i, t := range tables {
			if i > 0 {
				b.WriteByte('\n')
			}
			t.write(&b, as)
		}
	}
	_, err = w.Write(b.Bytes())
	return err
}

// write pads the cells with spaces, and cuts them where a line has a width. Control characters from the server never reach
// the terminal as they are.
func (t Table) write(w io.Writer, as Style) {
	columns := len(t.Header)
	if as.Format == "table" && t.Narrow > 0 {
		columns = t.Narrow
	}
	header := slices.Clone(t.Header[:columns])
	if as.NoHeaders {
		clear(header)
	}
	for _, row := range t.Rows {
		for i := range columns {
			row[i] = clean(row[i])
		}
	}
	l := layoutOf(header, t.Rows)
	if as.Format == "table" && as.Width > 0 {
		l.fit(as.Width)
	}
	if !as.NoHeaders {
		_, _ = fmt.Fprintln(w, l.row(t.Header))
	}
	for _, row := range t.Rows {
		_, _ = fmt.Fprintln(w, l.row(row))
	}
}

// nothing is what is shown in an empty cell.
const nothing = "-"

func clean(cell string) string {
	if cell == "" {
		return nothing
	}
	return strings.ReplaceAll(Printable(cell), "\n", "?")
}

// Printable takes control characters out of what the server says, so that it cannot steer the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || (r >= 0x7f && r < 0xa0)) {
			return '?'
		}
		return r
	}, text)
}

// Encode writes a JSON value without escaping what only matters inside HTML.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// EscapeForYAML escapes, in JSON, the characters that JSON may hold as they are and YAML refuses or takes for a line's
// end. In JSON they can only stand inside strings.
func EscapeForYAML(raw []byte) []byte {
	var b strings.Builder
	for _, r := range string(raw) {
		switch {
		case (r >= 0x7f && r <= 0x9f) || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff:
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

// Codes of colours.
const (
	Red    = "31"
	Green  = "32"
	Bold   = "1"
	Yellow = "33"
)

// Paint marks text with a colour.
func Paint(code, text string) string { return "\x1b[" + code + "m" + text + "\x1b[0m" }
