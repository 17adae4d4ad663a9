// Package render formats responses of the API: as tables for people, as JSON and YAML for programs, and as the differences of two
// documents. Text from the server cannot control the terminal.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

// Formats are the formats of -o.
var Formats = []string{"table", "wide", "json", "yaml", "name"}

// Output is the output of a command in any format. Only the parts that the format needs are computed.
type Output struct {
	// Document is the output as one value, which [JSON] encodes.
	Document any
	// Tables are printed one after the other.
	Tables func() ([]Table, error)
	// Text replaces the tables of output that has none.
	Text func(wide bool) string
	// Names has a name for each document: "cluster/demo-cluster-01".
	Names func() ([]string, error)
	// Ends: the document is written to a file; YAML gets an end marker.
	Ends bool
	// Comment is written below the header of a document that Ends: complete lines; empty: none.
	Comment string
}

// Table is rows of cells under a header.
type Table struct {
	Header []string
	Rows   [][]string
	// Narrow is the number of columns without -o wide; 0: all.
	Narrow int
}

// Without returns the table without one of its narrow columns.
func (t Table) Without(column int) Table {
	out := Table{Header: slices.Delete(slices.Clone(t.Header), column, column+1), Narrow: max(t.Narrow-1, 0)}
	for _, row := range t.Rows {
		out.Rows = append(out.Rows, slices.Delete(slices.Clone(row), column, column+1))
	}
	return out
}

// Style is the style of the output.
type Style struct {
	Format    string // one of [Formats] or [Templates]
	NoHeaders bool
	Width     int // of lines of tables, in characters; 0: unlimited
}

// Write writes the output in one of [Formats] or [Templates].
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
		document, err := JSON(out.Document)
		if err != nil {
			return err
		}
		if err := json.Indent(&b, document, "", "  "); err != nil {
			return err
		}
		b.WriteByte('\n')
	case format == "yaml":
		document, err := JSON(out.Document)
		if err != nil {
			return err
		}
		text, err := YAML(document)
		if err != nil {
			return err
		}
		if out.Ends {
			text = []byte(documents.ExportHeader + "\n" + out.Comment + string(text) + strictyaml.EndMarker + "\n")
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

// write pads the cells with spaces, and cuts them to the width. Control characters of the server never reach the terminal.
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

// nothing is the text of an empty cell.
const nothing = "-"

func clean(cell string) string {
	if cell == "" {
		return nothing
	}
	return strings.ReplaceAll(Printable(cell), "\n", "?")
}

// Printable replaces control characters in text of the server, so that it cannot control the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || (r >= 0x7f && r < 0xa0)) {
			return '?'
		}
		return r
	}, text)
}

// JSON returns a value as JSON: bytes are JSON already, other values are encoded.
func JSON(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case json.RawMessage:
		return v, nil
	case []byte:
		return v, nil
	}
	return Encode(v)
}

// Encode writes a JSON value without HTML escapes.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// lineEnds are the line ends of YAML 1.1 that YAML 1.2 and tools that split text into lines read as ordinary characters.
const lineEnds = "\u0085\u2028\u2029"

// mergeKey matches the key <<, which the library does not quote, so that YAML would merge its value into the object.
var mergeKey = regexp.MustCompile(`(?m)^[- ]*<<:`)

// YAML returns a JSON value as YAML. Where a block of text would end with one of lineEnds, so that the next key or "---" was not
// at the start of a line, or where there may be a mergeKey, it returns JSON, which is YAML, escapes them and quotes keys.
func YAML(value []byte) ([]byte, error) {
	value = EscapeForYAML(value)
	text, err := yaml.JSONToYAML(value)
	if err != nil || !bytes.ContainsAny(text, lineEnds) && !mergeKey.Match(text) {
		return text, err
	}
	var b bytes.Buffer
	err = json.Indent(&b, value, "", "  ")
	b.WriteByte('\n')
	return b.Bytes(), err
}

// EscapeForYAML escapes, in JSON, the characters that JSON allows and YAML rejects or reads as a line end. In JSON they only occur
// inside strings.
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

// Codes of colors.
const (
	Red    = "31"
	Green  = "32"
	Bold   = "1"
	Yellow = "33"
)

// Paint colors text.
func Paint(code, text string) string { return "\x1b[" + code + "m" + text + "\x1b[0m" }
