// Package summarize shortens what the command line and the fleet page show people, so that both show the same: the cause of a
// failure, and documents and clusters to which the same happens.
package summarize
