package jsontext

import (
	"encoding/json"

	"github.com/oapi-codegen/nullable"
)

// Nullable is a text as the contract's models have it where it may be null.
func Nullable(text json.RawMessage) nullable.Nullable[json.RawMessage] {
	if string(text) == "null" {
		return nullable.NewNullNullable[json.RawMessage]()
	}
	return nullable.NewNullableWithValue(text)
}
