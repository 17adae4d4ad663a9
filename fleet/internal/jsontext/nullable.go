package jsontext

import (
	"encoding/json"

	"github.com/oapi-codegen/nullable"
)

// Nullable wraps a text for the models of the API in which it may be null.
func Nullable(text json.RawMessage) nullable.Nullable[json.RawMessage] {
	if string(text) == "null" {
		return nullable.NewNullNullable[json.RawMessage]()
	}
	return nullable.NewNullableWithValue(text)
}
