package fleet

import "time"

// VersionAutomation is the actor of the commits that version policies make.
const VersionAutomation = "version-automation"

// KnownVersion is a version of a component's chart or artifact, or a tag of one of its images, that a registry has or had. It is an
// observation and no part of the log: without it, a version moves later, never earlier.
type KnownVersion struct {
	// Image is the image of the image policies that the version is for; empty: it is one of the component itself.
	Image string `json:"image,omitempty"`
	// Version is the tag, or the version of the chart.
	Version string `json:"version"`
	// Digest is what the tag referred to when it was last seen, as algorithm:hex; empty: unknown.
	Digest string `json:"digest,omitempty"`
	// CreatedAt is when it was created according to the registry; the zero time: unknown.
	CreatedAt time.Time `json:"created_at,omitzero"`
	// FirstSeen is when this service first saw the version, or with another digest than before.
	FirstSeen time.Time `json:"first_seen"`
	// Withdrawn: the registry no longer has the version. It is never a candidate.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// KnownVersions returns the known versions of a component and its images.
type KnownVersions func(component string) []KnownVersion

// VersionReport is what the policies of a component make of its known versions.
type VersionReport struct {
	Component string
	// Chart is about the component's own version; nil: its policy has no range.
	Chart *VersionEvaluation
	// Images are about its image policies, in their order.
	Images []VersionEvaluation
	// Holds are the versions that are never candidates until a person releases them.
	Holds []VersionHold
	// Pins are the layers and clusters that set an older version themselves, so that the move of a version does not reach them.
	Pins []VersionPin
	// Problem is why nothing moves, for reasons that are no property of one version; empty: none.
	Problem string
}

// VersionEvaluation is the result of one policy.
type VersionEvaluation struct {
	// Policy is the name of the image policy; empty: it is the component's version policy.
	Policy string
	Image  string
	// Stored are the version and the digest that the policy would replace; empty: none, or unknown.
	Stored, StoredDigest string
	// Candidate is the version to move to; nil: none.
	Candidate *KnownVersion
	// Reasons state for each known version, newest first, why it is not the candidate.
	Reasons []VersionReason
	// Problem is why the policy has no candidate regardless of versions, such as a stored version that is not semantic; empty: none.
	Problem string
}

// VersionReason is why a version is not the candidate of a policy; Reason is empty for the candidate.
type VersionReason struct {
	KnownVersion
	Reason string
}

// VersionHold is a version that no policy moves to.
type VersionHold struct {
	Image   string    `json:"image,omitempty"`  // of an image policy; empty: a version of the component
	Version string    `json:"version"`          // the tag
	Digest  string    `json:"digest,omitempty"` // empty: whatever the tag refers to
	At      time.Time `json:"at"`
	By      string    `json:"by"` // the actor
	Reason  string    `json:"reason,omitempty"`
}

// VersionPin is a document that sets an older version of a component itself.
type VersionPin struct {
	Kind    Kind // KindLayer or KindCluster
	ID      string
	Version string
}

// EvaluateVersions evaluates the policies of a component: it decides which version each of them would move to, and why it is no
// other. It is a pure function, and the only one that decides that; [Tx.MoveVersions] uses it too. The component must exist.
func EvaluateVersions(st *State, component string, known []KnownVersion, now time.Time) VersionReport {
	return VersionReport{Component: component}
}

// VersionMoves returns the names of the moves that the fleet has policies for, sorted: that of a component is its id, that of several
// components the group of their policies, after "group/". Each is to be tried with [Tx.MoveVersions] in a commit of its own.
func VersionMoves(st *State) []string { return nil }

// VersionPrincipal returns the actor who last changed the policies of a component, and the identity of an actor of an issuer. The
// component's moves need the rights of this actor. An empty actor may do nothing.
func VersionPrincipal(st *State, component string) (actor string, identity *Subject) { return "", nil }

// MoveVersions evaluates the policies of a move on the Tx's base, and makes the change that they decide: it proposes a rollout named
// auto-COMPONENT or auto-GROUP, rewrites it while it is proposed, starts it, or changes the documents. It reports whether there is
// anything to commit. The actor of the commit must be [VersionAutomation].
//
// limit must limit a Tx to the rights of the principal of a component, as the server does for rollouts; it is called for tx.
func (tx *Tx) MoveVersions(move string, known KnownVersions, now time.Time, limit func(tx *Tx, component string)) (changed bool, err error) {
	return false, nil
}

// HoldVersion holds a version of a component or of one of its images, so that no policy moves to it.
func (tx *Tx) HoldVersion(component string, hold VersionHold) error { return nil }

// ReleaseVersion releases a held version. CodeNotFound: it is not held.
func (tx *Tx) ReleaseVersion(component, image, version string) error { return nil }
