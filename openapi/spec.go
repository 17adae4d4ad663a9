// Package openapi holds the contract: openapi.yaml is the only place the API is designed.
package openapi

import _ "embed"

// YAML is the contract as it was written.
//
//go:embed openapi.yaml
var YAML []byte
