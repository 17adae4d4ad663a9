// Package fleet is the product: the documents that describe a fleet of clusters, the rules that they must obey, and the
// desired state that each cluster's Flux Operator polls.
//
// It is separate from servers and databases because a wrong answer does more damage than no answer: Flux uninstalls everything
// that an answer lacks, on thousands of clusters at once. So the fleet is an immutable value. [State] is every document at one
// revision, computed by a fold over an ordered log of commits. [Tx] collects edits of a State, and [Tx.Finish] validates them
// and returns the next State. A dry run, a plan and the change itself run the same code; so do a poll and its preview in a
// plan.
//
// Three invariants always hold. Property tests check them with random fleets and edits:
//
//   - A State never changes and can answer every poll: each list is complete or an error, and never shorter than the
//     documents define. Every process that applies the same commit gets the same State.
//   - Every State that [Tx.Finish] accepts is valid, and Flux accepts its answers. A problem that was stored before and has
//     not grown is a warning, so that unrelated changes stay possible.
//   - The package does not wait, log, do I/O or read the clock. Nothing is done for one kind of definition that is not done
//     for all: kinds are values of one type, and a State holds the list of them.
//
// Reading order:
//
//  1. kinds.go, definitions.go and kind_descriptor.go define a kind of document. namespaces.go, rolebindings.go,
//     components.go and resource_types.go are kinds, clusters.go is the documents that they are assigned to, and
//     component_input.go merges a component with the settings of a cluster.
//  2. commit.go and state.go: the types of the log, and the documents at one revision.
//  3. layers.go, layer_merge.go, layer_resolve.go and effective.go: settings that clusters share, and the effective
//     configuration of each cluster.
//  4. answers.go: the answer to a poll.
//  5. tx.go, assignments.go and patches.go edit one document, the lists of a cluster, and values with field managers.
//     batch.go, batch_operations.go, restore.go and revert.go edit many documents, seed.go creates the first ones. requested.go
//     records the requested operations in the commit.
//  6. validate.go validates a change. dependents.go, layer_changes.go and answer_size.go check the clusters that a change
//     affects indirectly. guard.go and budget.go limit removals, orphans.go records objects that Flux keeps.
//  7. explain.go and blame.go: the document and the revision that set a value of an input.
//  8. plan.go, affected.go and effects.go: the preview of a change.
//  9. tokens.go and token_revocations.go: bearer tokens, which are documents too, but never part of an answer.
//
// The internal packages know nothing of a fleet. Documents: jsontext parses and writes JSON, unstructured edits JSON objects,
// threeway reverts one change of a document, explain finds the document that sets a value, diff compares two inputs. Patches:
// helmvalues defines their syntax, fieldmanagers their owners. Lists: overlay merges those of several layers. The others:
// typeschema validates against the schemas of resource types, graph finds cycles, summary describes commits in one line,
// parallel uses all processors.
package fleet
