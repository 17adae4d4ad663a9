// Package access answers what a subject may do, without doing it: it tries changes with the rights of the subject, as commits by it would
// be checked.
//
//   - check.go: the operations of a commit. right.go: one right, on a document, a kind, or anything.
package access
