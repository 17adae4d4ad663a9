// Package server is the HTTP API: polls of clusters, reads and changes of the fleet, probes and metrics.
//
// Four things always hold:
//
//   - A poll is answered from the State in memory. It does not wait for the store, a queue, the log or a job, and it is an
//     error rather than an incomplete list. The fast path and the router answer the same bytes.
//   - A request is authenticated before its body is read, and again in the State that its answer or its commit is based on. So a
//     revoked token commits nothing, however long the request took.
//   - Every request takes bounded memory and time, whatever its client does. Limits count by principal or address, so that one
//     client does not delay the others.
//   - Handlers return errors; errors.go alone turns them into HTTP. Messages for callers, causes for the log, secrets in neither.
//
// A poll as Flux Operator sends it is answered by internal/poll. All other requests take this way:
//
//	listener.go, internal/admission    limits of the connection
//	middleware.go                      request id, log, metrics, panics; preauth.go bounds unauthenticated requests
//	server.go: guard                   the mode of the server, then:
//	  auth.go, internal/auth           sender and permission; lockout.go slows down guesses of tokens
//	  request.go                       waits for the revision that the client requires
//	  internal/admission               turns of expensive requests
//	  internal/openapi                 parameters and body against openapi/openapi.yaml
//	handler                            one file for each noun of the API
//	internal/response, responses.go    the answer; errors.go when it is an error, of internal/httperror or another package
//
// To read it from the beginning:
//
//  1. server.go: [Config], [Server], and guard. request.go: the request that the steps pass on.
//  2. internal/auth, then internal/poll, polls.go and receipts.go: the endpoints of clusters.
//  3. documents.go: reads and changes of all kinds of documents. clusters.go, components.go and the other nouns name their kind.
//  4. plan.go, batch.go, restore.go, revisions.go: many documents, and the history.
//  5. status.go, component_status.go, revision_progress.go: the status of clusters, which package clusterstatus evaluates.
//  6. metrics.go, state_metrics.go, probes.go: monitoring.
package server
