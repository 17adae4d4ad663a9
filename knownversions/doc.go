// Package knownversions keeps which versions of components exist, as they were pushed by CI or found by scans of registries, and
// exchanges them between the processes of one service. They are observations and no part of the fleet's history: a process that loses
// some observes them again later, so automation becomes later and never earlier.
//
// Start with [Store]. Merges are idempotent and independent of their order, so processes that read each other's rows agree.
package knownversions
