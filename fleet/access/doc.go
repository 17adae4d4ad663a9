// Package access checks what a subject may do. It tries changes with the rights of the subject and the checks of a commit, and commits
// nothing.
//
//   - check.go: the operations of a commit. right.go: one right, on a document, a kind, or anything.
package access
