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
// Files build on each other in one direction, from the types up to the plan. Reading order:
//
//  1. commit.go and document_log.go: the types of the log. errors.go: the errors. model.go: the types of a fleet, which refer
//     to each other.
//  2. document.go, kinds.go, kind_descriptor.go and definitions.go: documents, and kinds of documents. shared_fields.go decodes
//     clusters that share values.
//  3. layer_merge.go, layer_resolve.go, layer_limits.go and effective.go: settings that clusters share, and the effective
//     configuration of each cluster. variables.go replaces references in settings, layer_variables.go finds their values. pinned_inputs.go computes
//     the configuration that a pin keeps.
//  4. state.go reads the documents at one revision, apply.go computes the next State from a commit. references.go finds the
//     clusters that refer to a definition.
//  5. answers.go: the answer to a poll. answer_encoding.go encodes and compresses it, receipts.go identifies its inputs.
//  6. check.go collects the problems of a document. namespaces.go, rolebindings.go, components.go and resource_types.go are
//     kinds of definitions, clusters.go is the documents that they are assigned to, layers.go the layers. component_input.go
//     merges a component with the settings of a cluster, resources.go and rendered.go do so for a resource type.
//     compiled_in.go registers the kinds, commit_summaries.go describes commits with them.
//  7. tx.go and requested.go: edits of a State, and the requested operations that the commit records. tx_documents.go,
//     tx_delete.go, decommission.go, assignments.go and patches.go edit one document, the lists of a cluster, and values with field
//     managers, etag.go makes an edit depend on the version that its author knows. tx_layers.go resolves layers with the edits. batch.go,
//     restore.go, revert.go with revert_direction.go, layer_edits.go and adopt.go edit many documents, adoptable.go finds the settings
//     that all clusters of a layer share. batch_run.go runs the operations of a batch, seed.go creates the first documents.
//  8. validate.go validates a change, with the collected problems of tx_validation.go. missing_variables.go, secret_values.go, namespace_removals.go, dependents.go, layer_changes.go and
//     answer_size.go check the clusters that a change affects indirectly. shadowed.go finds settings of layers that reach no cluster,
//     fleet_limits.go limits how many documents there are, secret_names.go decides which values look like secrets.
//  9. affected.go finds the clusters whose polls change, removals.go the objects that they lose. guard.go and budget.go limit
//     these removals, orphans.go records objects that Flux keeps.
//  10. input_list.go, effects.go and plan.go: the preview of a change.
//  11. For package history: origins.go finds the documents that determine an input, comparison.go computes the effect of a revision on
//     the inputs of a cluster, or of a component on all clusters.
//  12. tokens.go, token_secret.go, token_documents.go and token_revocations.go: bearer tokens, which are documents too, but
//     never part of an answer.
//  13. rollout_model.go, rollout_stages.go, rollout_approvals.go, rollout_variants.go and overlay.go: changes that reach clusters
//     stage by stage, and the [Overlay] of documents that reached clusters have in place of the stored ones, which
//     [State.definition] returns. rollout_deletion_policies.go: deletion policies that such clusters may still have.
//     rollout_conflicts.go refuses changes that cannot be merged with those of open rollouts. rollout_gates.go,
//     rollout_check.go, rollout_validation.go and rollout_removals.go validate rollouts, rollout_waits.go finds what a stage waits for, rollouts.go creates and changes rollouts,
//     rollout_inputs.go finds the inputs that they change, rollout_next.go decides how they advance.
//  14. freezes.go: times at which the answers to some clusters must not change. freeze_times.go and window_times.go say when that is, by the
//     clocks of time zones: freezes with times, and maintenance windows. pins.go stores what a cluster is served when it is
//     pinned. frozen.go finds the frozen and pinned clusters because of which a change is refused, and the pinned ones that it reaches later.
//  15. access.go: the rights of identities. scope.go and scope_versions.go refuse changes that these do not permit. visible.go selects the
//     documents that they permit to read. rights_trial.go tries changes of one document for package access. session_ends.go: ended sessions of people.
//  16. version_policies.go and version_holds.go: which versions of components may move, and which are held. versions.go decides which
//     known version a policy moves to, version_targets.go finds and changes the settings that hold it. version_reports.go evaluates the
//     policies of a component, version_automation.go holds the versions that a commit takes back, and version_moves.go makes the changes.
//  17. webhook_documents.go, webhook_events.go and webhooks.go: receivers of events, the events of a commit, and changes of receivers.
//  18. sources.go and source_records.go: artifacts that the server follows, and what is recorded of them. source_artifacts.go makes the change
//     of an artifact, source_ownership.go refuses changes of managed documents by others.
//  19. policies.go: rules about the effect of changes; enforced_rules.go lists them with the other rules. policy_effect.go computes the effect as rules read it, approval_records.go and approvals.go
//     have the approvals of changes by other people, as principals.go compares them, and policy_checks.go refuses changes.
//
// Two packages on top of this one use only its exported names: access checks what a subject may do, history finds the documents and
// revisions that set the inputs of a cluster.
//
// The internal packages know nothing of a fleet. Documents: jsontext parses and writes JSON, unstructured edits JSON objects,
// threeway reverts or makes one change of a document, explain finds the document that sets a value, diff compares two inputs. Patches:
// helmvalues defines their syntax, fieldmanagers their owners. Lists: overlay merges those of several layers. The others:
// typeschema validates against the schemas of resource types, rendering executes their templates, graph finds cycles, summary
// describes commits in one line, parallel uses all processors.
package fleet
