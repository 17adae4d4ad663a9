// Package jsontext parses and writes JSON strictly. Documents go from the caller to Flux and on into YAML, so it refuses
// input that a typed decoder would silently repair or round, and points to the problem. Documents are compared and hashed as
// text, so each has exactly one canonical form. It does not depend on the fleet.
package jsontext
