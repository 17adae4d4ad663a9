// Package webhooks delivers events of the log to receivers, by HTTP requests with signatures of Standard Webhooks.
//
// The log is the outbox: each event derives from a commit, except those of failing clusters, and there is no other record of events. The progress of a webhook, its
// cursor, is a row of the table of cluster status, which processes read every second. A lost row causes repeated deliveries, and
// no missing ones.
//
//   - Deliveries follow the order of revisions, each at least once. Revisions that cannot be delivered are named by an event
//     of type fleet.gap.
//   - The process that committed a revision delivers it, another one if that does not happen within 15 seconds.
//   - A change of the fleet never waits for a webhook: workers read the log after the commit.
//   - Events of failing clusters are not in the log. The last one is kept in memory until it is delivered, or the next one replaces it.
//
// Reading order: deliverer.go starts a worker for each webhook. worker.go decides what to do next, with cursor.go, revisions.go
// (reads the log), queue.go (the next request) and retry.go (the wait after a failed attempt). event.go and message.go make bodies, signature.go signs them, sender.go
// sends them, address.go restricts the addresses. clusters.go sends events of failing clusters.
package webhooks
