// Package store keeps the fleet's commit log and the documents that result from it.
//
// It exists because the log decides what every cluster runs: a lost commit, or a State put together from two moments, makes
// clusters uninstall their workloads. Three invariants follow:
//
//   - A commit names the head that it was computed from, and is refused if the head has moved. It is applied with all its
//     changes, or not at all.
//   - A process serves only States that follow from each other. If the store's history is replaced, it is quarantined until
//     an operator accepts it.
//   - With a directory for it, a State is on disk before it is served. A State that the store has not confirmed for too long
//     is not served.
//
// Reading order:
//
//  1. store.go: [Store], the contract of every backend, and its errors. storetest is the suite that proves it; sqlite and
//     postgres are the backends.
//  2. replica.go: [Replica], one process's copy of the fleet, which the server uses. replica_follow.go and replica_chunks.go
//     read the log, replica_update.go commits, for which idle_timeout.go permits more time the larger they are, staleness.go decides whether the State may be served.
//  3. Replaced histories: replica_quarantine.go decides what is served meanwhile, quarantine.go is the record that all processes
//     share, acceptance.go ends it.
//  4. replica_disk.go and the package localstate: the State on disk, for a restart without the store; boottime.go reads the clock that measures its age.
//  5. chain.go and verify.go: the hash chain that reveals altered history. copy.go and retention.go: whole logs.
package store
