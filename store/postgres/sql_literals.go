package postgres

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// requiredSettings are the settings of a connection that the literals below are right for. They are the server's defaults, and the
// driver asks for them when it connects.
var requiredSettings = map[string]string{"standard_conforming_strings": "on", "client_encoding": "UTF8"}

// texts are bodies that go as one text: see bodySeparator.
type texts [][]byte

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
		return appendText(b, []byte(v))
	case *string:
		if v == nil {
			return append(b, "NULL"...), nil
		}
		return appendText(b, []byte(*v))
	case []byte: // of a bytea column
		if v == nil {
			return append(b, "NULL"...), nil
		}
		return append(hex.AppendEncode(append(b, `'\x`...), v), '\''), nil
	case texts:
		return appendText(b, v...)
	case []string:
		return appendArray(b, v, func(b []byte, s string) []byte { return appendElement(b, s) })
	case []*string:
		return appendArray(b, v, func(b []byte, s *string) []byte {
			if s == nil {
				return append(b, "NULL"...)
			}
			return appendElement(b, *s)
		})
	case [][]byte:
		return appendArray(b, v, func(b, item []byte) []byte {
			if item == nil {
				return append(b, "NULL"...)
			}
			return append(hex.AppendEncode(append(b, `"\\x`...), item), '"')
		})
	case []int64:
		return appendArray(b, v, func(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) })
	case []int32:
		return appendArray(b, v, func(b []byte, n int32) []byte { return strconv.AppendInt(b, int64(n), 10) })
	case []bool:
		return appendArray(b, v, strconv.AppendBool)
	}
	return nil, fmt.Errorf("there is no literal for a %T", value)
}

// appendInteger puts a negative number into parentheses: after another minus it would begin a comment.
func appendInteger(b []byte, n int64) []byte {
	if n < 0 {
		return append(strconv.AppendInt(append(b, '('), n, 10), ')')
	}
	return strconv.AppendInt(b, n, 10)
}

// appendText writes texts, with bodySeparator between them, as one string literal, in which only the quote is special.
func appendText(b []byte, parts ...[]byte) ([]byte, error) {
	size := 2
	for _, part := range parts {
		size += len(part) + 1
	}
	b = append(slices.Grow(b, size), '\'')
	for i, part := range parts {
		if bytes.IndexByte(part, 0) >= 0 {
			return nil, errNUL
		}
		if i > 0 {
			b = append(b, bodySeparator...)
		}
		for {
			at := bytes.IndexByte(part, '\'') + 1
			if at == 0 {
				break
			}
			b = append(append(b, part[:at]...), '\'')
			part = part[at:]
		}
		b = append(b, part...)
	}
	return append(b, '\''), nil
}

// errNUL: a message ends where one is.
var errNUL = errors.New(`a text has the character \u0000, which no text column takes`)

// appendArray writes an array as the string literal that it is read from.
func appendArray[T any](b []byte, items []T, element func([]byte, T) []byte) ([]byte, error) {
	array := append(make([]byte, 0, 16*len(items)+2), '{')
	for i, item := range items {
		if i > 0 {
			array = append(array, ',')
		}
		array = element(array, item)
	}
	return appendText(b, append(array, '}'))
}

// appendElement writes a text as an element of an array.
func appendElement(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}
