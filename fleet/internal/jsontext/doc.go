// Package jsontext reads and writes JSON as this service needs it. Documents go from the caller to Flux and on into YAML, so
// what a typed decoder would quietly repair or round is refused, with a pointer to it; and documents are compared and hashed
// as text, so there is one way to write each of them. It knows nothing of the fleet.
package jsontext
