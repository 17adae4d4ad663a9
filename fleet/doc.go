// Package fleet is the domain: the documents that describe a fleet of clusters, the rules they must obey, and the
// merge that turns them into what each cluster's Flux Operator receives.
//
// The fleet is a fold over an ordered log of commits. [State] is every document at one revision and never changes;
// [Tx] collects edits to a State, and [Tx.Finish] validates the result as a whole. Nothing here does I/O or reads a
// clock, so a dry run, a plan and a real write are the same code.
package fleet
