// Package fleet is the product: the documents that describe a fleet of clusters, the rules they must obey, and what each
// cluster's Flux Operator receives because of them.
//
// It exists apart from servers and databases because a wrong answer is far worse here than none: Flux removes what an answer
// leaves out, on thousands of clusters at once. So the fleet is a value that can be computed with. It is a fold over an
// ordered log of commits; [State] is every document at one revision, [Tx] collects edits to a State, and [Tx.Finish] is what
// would come of them. A dry run, a plan and the change itself are the same code, as are the answer to a poll and what a plan
// says of it.
//
// Three things always hold, and the tests hold them for fleets and edits drawn at random:
//
//   - A State never changes and answers every poll: each list is whole or it is an error, never shorter than what the
//     documents say. What a commit makes of it is the same in every process that reads the log.
//   - Whatever [Tx.Finish] accepts leaves such a State, with answers that Flux takes. What was wrong in the store before and
//     is no worse is a warning, so that an unrelated change stays possible.
//   - Nothing here waits, logs, does I/O or asks what time it is, and nothing is done for one kind of definition that is not
//     done for all: they are values of one type, and a State carries the list of them.
//
// To read it from the beginning:
//
//  1. kinds.go and definitions.go: what a kind of document is; namespaces.go, rolebindings.go and components.go are three of
//     them, clusters.go is what they are assigned to, and overrides.go what clusters say about components.
//  2. commit.go and state.go: the log's words, and documents at one revision.
//  3. layers.go, fold.go, layering.go and effective.go: what clusters have in common, and what each has by that.
//  4. answers.go: a poll.
//  5. tx.go, assignments.go and patches.go: changes of one document, of a cluster's lists, and of values that have managers.
//     batch.go, batch_operations.go, restore.go and revert.go are many of them at once, seed.go is the first. cause.go keeps
//     what somebody asked for.
//  6. finish.go: what a change comes to. dependents.go, relayered.go and sizes.go look at clusters that it only touches; guard.go and
//     budget.go are about what Flux would remove, forgotten.go about what it keeps.
//  7. explain.go and blame.go: which document sets a value of an input, and in which revision.
//  8. plan.go, affected.go and effects.go: the same, to be read before it is done.
//  9. tokens.go and latertokens.go: bearer tokens, which are documents as well and no part of what clusters get.
//
// The internal packages know nothing of a fleet. Documents: jsontext parses and writes JSON, unstructured edits JSON objects,
// threeway reverts one change of a document, explain finds the document that sets a value, diff compares two inputs. Patches:
// helmvalues defines their syntax, fieldmanagers their owners. Lists: overlay merges those of several layers. The others:
// typeschema validates against the schemas of resource types, graph finds cycles, summary describes commits in one line,
// parallel uses all processors.
package fleet
