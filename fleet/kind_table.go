package fleet

import "slices"

// kindUse determines what changes of a kind of documents need, and what they affect. The zero value is the most restricted: only admins
// change the documents, one by one.
type kindUse struct {
	batch    bool // operations of batches change the documents, so files contain them
	writers  bool // the right to write suffices, with its limits; otherwise only admins change them
	staged   bool // rollouts stage their changes
	internal bool // no answer of the API has them
	derived  bool // they result from changes of others
	readable bool // a right to read with limits shows some of them
	policies bool // the right to change policies suffices in place of that of admins
	// unreverted says what to do in place of a revert; empty: reverts and restores change them.
	unreverted string
}

// forAdmins reports whether only admins change documents of the kind.
func (u kindUse) forAdmins() bool { return !u.writers && !u.derived }

// described is the use of the kinds that describe the fleet: definitions, layers, clusters and resource types.
var described = kindUse{batch: true, writers: true, readable: true}

// kindUses is the use of all other kinds. A kind that is missing is only for admins, and a test fails.
var kindUses = map[Kind]kindUse{
	KindRollout:           {writers: true, readable: true, unreverted: "roll a stage back, or abort the rollout"},
	KindStrategy:          {batch: true, writers: true, readable: true},
	KindFreeze:            {batch: true, writers: true, readable: true, unreverted: "change or delete them"},
	KindAccess:            {batch: true, unreverted: "change or delete them"},
	KindWebhook:           {batch: true, unreverted: "change or delete them"},
	KindSource:            {batch: true, unreverted: "change or delete them"},
	KindPolicy:            {batch: true, policies: true, unreverted: "change or delete them"},
	KindToken:             {internal: true, unreverted: "a secret that was revoked stays so; create, rotate or revoke tokens by themselves"},
	KindSessionEnd:        {internal: true},
	KindApproval:          {internal: true, derived: true},
	KindBudget:            {internal: true, derived: true},
	KindOrphan:            {internal: true, derived: true},
	KindPin:               {internal: true, derived: true},
	KindVersionAutomation: {internal: true, derived: true},
	KindSourceState:       {internal: true, derived: true},
	KindSourceDocuments:   {internal: true, derived: true},
}

// useOf returns the use of a kind.
func (ks *kindSet) useOf(kind Kind) kindUse {
	if _, typed := kind.ResourceType(); !typed && !slices.ContainsFunc(ks.kinds, func(k *kindRules) bool { return k.name == kind }) {
		return kindUses[kind]
	}
	use := described
	use.staged = kind != KindCluster && kind != KindResourceType
	return use
}

// isInternal reports whether documents of a kind are never part of an answer.
func isInternal(kind Kind) bool { return kindUses[kind].internal }

// neverServed reports whether documents of a kind are part of no answer to clusters by themselves.
func neverServed(kind Kind) bool { _, other := kindUses[kind]; return other }
