// Package redact replaces secrets in text that is logged, returned or shown.
//
// Two kinds of text need two rules, and both are here so that they are not written a third time:
//
//   - Free text from clients and clusters: reasons, ids, messages of failures. A [Masker] replaces secrets that it can recognize:
//     the tokens of this server, managed tokens, and values in a known format (tokens.go).
//   - Structured values of documents, such as Helm values. [JSON] and [Value] replace what may be a secret by the name of its field
//     (values.go). This is a guess, so a user can show the values.
//
// handler.go applies a Masker to log records.
package redact
