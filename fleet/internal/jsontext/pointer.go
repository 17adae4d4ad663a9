package jsontext

import (
	"fmt"
	"strconv"
	"strings"
)

// Pointer is the JSON pointer (RFC 6901) to a field, given the keys, strings or integers, on the way to it.
func Pointer(parts ...any) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteByte('/')
		switch p := p.(type) {
		case int:
			b.WriteString(strconv.Itoa(p))
		case string:
			b.WriteString(pointerEscape.Replace(p))
		default:
			panic(fmt.Sprintf("a JSON pointer is made of strings and integers, not of %T", p))
		}
	}
	return b.String()
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")
