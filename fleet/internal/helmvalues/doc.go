// Package helmvalues implements the syntax of patches: flat paths and values, as in `helm --set PATH=VALUE`, and expands
// them into the values of a chart or into Flux's variable substitution. The grammar is Helm's, slightly stricter; tests
// compare it with Helm's parser. Helm itself cannot check a path without a chart. It does not depend on the fleet.
package helmvalues
