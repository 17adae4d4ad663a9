// Package helmvalues is the grammar of patches: flat paths and values, as in `helm --set PATH=VALUE`, and what they become in
// a chart's values or in Flux's substitution of variables. It is Helm's own grammar, a little stricter, and held against
// Helm's parser by tests; Helm itself cannot be asked to check a path without a chart. It knows nothing of the fleet.
package helmvalues
