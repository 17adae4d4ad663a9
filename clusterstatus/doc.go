// Package clusterstatus derives the status of clusters from their polls, receipts and events. The service never connects to a
// cluster, so these three are all that it knows.
//
// Four things always hold:
//
//   - The status is no part of the fleet. It is in no commit, plan, export or copy, and an answer to a poll never waits for it.
//     A process whose [Store] fails keeps its own observations in memory and writes them later. After a complete loss, clusters
//     repeat their receipts within the hour.
//   - A cluster reports only on itself, and is not trusted: limits bound the memory that one cluster can fill. The caller
//     decides whether a poll with a token that other clusters may use too counts, or changes no state.
//   - A receipt confirms an input only if the cluster cannot have sent it before its last change. The function receiptCounts is
//     the only place that decides this.
//   - Processes converge. Each row of the Store has one subject and a time; the later observation wins in every process, so the
//     order in which processes read rows does not matter. The two exceptions have rules of their own: removed inputs, of which
//     the latest removal counts, and polls, because two processes may serve one cluster in turn.
//
// The package does no HTTP and no SQL. Callers pass the time, except to [Tracker.Run].
//
// To read it from the beginning:
//
//  1. tracker.go: [Tracker], the observations of all clusters in memory. record.go has those of one cluster.
//  2. tracker_record.go: polls and events as they arrive. receipts.go: receipts, and the rule whether one counts.
//     stale_receipts.go: the removed inputs, on which the rule depends.
//  3. states.go: [State] and [Status]. evaluate.go: [Query]; the state of a cluster from its observations, such as
//     silent. classify.go: the class of each input, which is kept between evaluations.
//  4. store.go: the contract of a [Store], which the processes of one service share. sync.go reads and writes it, codec.go is the
//     format of its rows, merge.go applies the rows of other processes, loss_detection.go notices a Store that lost rows,
//     clocks.go a process with a wrong clock.
//  5. floor.go refuses polls from an older revision than another process served. filters.go keeps the filters by which management
//     clusters poll the list of clusters. fleet_changes.go turns the change of the set of failing clusters into one event. count_history.go keeps
//     the numbers of clusters by state of the last day, count_details.go the components and clusters that failed in it. token_uses.go keeps
//     when tokens were last used.
//
// Package statustest has the suite that every Store passes.
package clusterstatus
