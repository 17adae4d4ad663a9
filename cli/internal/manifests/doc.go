// Package manifests computes the operations that make a fleet match the documents of files, and writes documents to files. The server
// decides whether a document is valid and whether it changes anything.
//
//	files ── ReadFiles ──> documents.Document ── Set.Operations ──> Operation ── cli ──> batch or plan
//	                                                   ^                  ^
//	                                  stored documents │ Fleet            │ EditPatch <── a document, edited
//	                                                   v
//	stored documents ── Export ──> one document, or a file for each ── ReadFiles reads both again
//
// Reading order: files.go, set.go (operations), diff.go, export.go, edit.go.
package manifests
