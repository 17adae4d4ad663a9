package postgres

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// requiredSettings are the settings of a connection that the literals below are right for. They are the server's defaults, and the
// driver asks for them when it connects.
var requiredSettings = map[string]string{"standard_conforming_strings": "on", "client_encoding": "UTF8"}

// literal is a value as SQL has it.
type literal []byte

// appendStatement writes a statement with values in place of its parameters. Statements are constants of this package, in which
// $ occurs only before the number of a parameter.
func appendStatement(b []byte, statement string, args []any) ([]byte, error) {
	for {
		text, rest, more := strings.Cut(statement, "$")
		b = append(b, text...)
		if !more {
			return b, nil
		}
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n < 1 || n > len(args) {
			return nil, fmt.Errorf("the statement has a parameter $%s, and there are %d values", rest[:digits], len(args))
		}
		if b, err = appendLiteral(b, args[n-1]); err != nil {
			return nil, fmt.Errorf("parameter $%d: %w", n, err)
		}
		statement = rest[digits:]
	}
}

// appendLiteral writes a value as SQL has it.
func appendLiteral(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case int:
		return appendInteger(b, int64(v)), nil
	case int64:
		return appendInteger(b, v), nil
	case string:
		return appendQuoted(b, []byte(v))
	case sqlstore.Body:
		return appendQuoted(b, v)
	case []byte: // of a bytea column
		if v == nil {
			return append(b, "NULL"...), nil
		}
		return append(hex.AppendEncode(append(b, `'\x`...), v), '\''), nil
	case nil:
		return append(b, "NULL"...), nil
	case literal:
		return append(b, v...), nil
	}
	return nil, fmt.Errorf("there is no literal for a %T", value)
}

// appendQuoted writes a text as SQL has it.
func appendQuoted(b, text []byte) ([]byte, error) {
	b, err := appendText(append(b, '\''), text)
	return append(b, '\''), err
}

// appendInteger puts a negative number into parentheses: after another minus it would begin a comment.
func appendInteger(b []byte, n int64) []byte {
	if n < 0 {
		return append(strconv.AppendInt(append(b, '('), n, 10), ')')
	}
	return strconv.AppendInt(b, n, 10)
}

// errNUL: a message ends where one is.
var errNUL = errors.New(`a text has the character \u0000, which no text column takes`)

// appendText writes the inside of a string literal, in which only the quote is special.
func appendText(b, text []byte) ([]byte, error) {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, errNUL
	}
	b = slices.Grow(b, len(text)+1)
	for {
		at := bytes.IndexByte(text, '\'') + 1
		if at == 0 {
			return append(b, text...), nil
		}
		b = append(append(b, text[:at]...), '\'')
		text = text[at:]
	}
}

// column is a string literal with one value of each row: an array, or bodies with sqlstore.BodySeparator between them.
type column struct {
	text []byte
	end  string
}

func resetColumns(columns []column, n int) []column {
	columns = slices.Grow(columns[:0], n)[:n]
	for i := range columns {
		columns[i].text = columns[i].text[:0]
	}
	return columns
}

func (c *column) literal() literal { return append(c.text, c.end...) }

// add adds a value, and returns by how many bytes the column grows.
func (c *column) add(value any) (int, error) {
	before := len(c.text)
	_, isBody := value.(sqlstore.Body)
	switch {
	case isBody && before == 0:
		c.text, c.end = append(c.text, '\''), `'`
	case isBody:
		c.text = append(c.text, sqlstore.BodySeparator...)
	case before == 0:
		c.text, c.end = append(c.text, `'{`...), `}'`
	default:
		c.text = append(c.text, ',')
	}
	var err error
	switch v := value.(type) {
	case nil:
		c.text = append(c.text, "NULL"...)
	case sqlstore.Body:
		if bytes.Contains(v, []byte(sqlstore.BodySeparator)) { // it would be taken for two
			return 0, fmt.Errorf("a document is not JSON: it has the character %q", sqlstore.BodySeparator)
		}
		c.text, err = appendText(c.text, v)
	case int64:
		c.text = strconv.AppendInt(c.text, v, 10)
	case string:
		c.text, err = appendElement(c.text, v)
	case []byte:
		if v == nil {
			c.text = append(c.text, "NULL"...)
		} else {
			c.text = append(hex.AppendEncode(append(c.text, `"\\x`...), v), '"')
		}
	default:
		err = fmt.Errorf("there is no array of %T", value)
	}
	return len(c.text) - before, err
}

// appendElement writes a text as an element of an array.
func appendElement(b []byte, s string) ([]byte, error) {
	b = append(b, '"')
	for i := range len(s) {
		switch s[i] {
		case 0:
			return nil, errNUL
		case '"', '\\':
			b = append(b, '\\')
		case '\'':
			b = append(b, '\'')
		}
		b = append(b, s[i])
	}
	return append(b, '"'), nil
}
