// Package helmtestserver takes the place of a module that only tests of source-controller import and that the Go proxy does
// not serve. Nothing that is built imports it; `go mod tidy` needs it to exist.
package helmtestserver
