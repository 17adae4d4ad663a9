package fleet

import (
	"path"
	"slices"
	"strings"
	"time"
)

const (
	maxVersionHolds    = 200 // of one component
	maxReplacedDigests = 50  // of one component
)

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

// versionAutomation is the value of such a document.
type versionAutomation struct {
	ID string `json:"id"` // of the component
	// Principals are who last changed the policies, by target.
	Principals map[string]policyPrincipal `json:"principals,omitempty"`
	Holds      []VersionHold              `json:"holds,omitempty"`
	// Replaced are digests that were replaced by others, the newest last. A tag that refers to one of them again has moved back.
	Replaced []replacedDigest `json:"replaced,omitempty"`
	// Left are the versions that were stored last, by target and image, while no semantic version or no policy is: see leftKey.
	Left map[string]string `json:"left,omitempty"`
}

// policyPrincipal is who last changed the policy of a target, or those of images: an actor, and its identity if it is one of an issuer.
type policyPrincipal struct {
	Actor    string   `json:"actor"`
	Identity *Subject `json:"identity,omitempty"`
}

type replacedDigest struct {
	Layer  string `json:"layer,omitempty"` // empty: in the catalog
	Image  string `json:"image"`
	Digest string `json:"digest"`
}

// leftKey returns the key of a target and an image in Left: the image, after the layer and a space. The component itself has no image.
func leftKey(target, image string) string {
	return strings.TrimLeft(layerOf(target)+" "+image, " ")
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

var versionAutomationKind = recordKind(KindVersionAutomation, "version automation", func() any { return new(versionAutomation) })

// versionAutomation returns the record of a component; an empty one if there is none. It must not be changed.
func (s *State) versionAutomation(component string) *versionAutomation {
	if d := s.docs[KindVersionAutomation][component]; d != nil {
		return d.value.(*versionAutomation)
	}
	return &versionAutomation{ID: component}
}

// principal returns who last changed the policies of a target. Its moves need the rights of this actor. An empty actor may do nothing.
func (a *versionAutomation) principal(target string) policyPrincipal {
	return a.Principals[target]
}

// holdOf returns the hold of a version; nil: it is not held.
func (a *versionAutomation) holdOf(k KnownVersion) *VersionHold {
	for i := range a.Holds {
		if a.Holds[i].holds(k) {
			return &a.Holds[i]
		}
	}
	return nil
}

// holds reports whether a hold is one of a version. Versions that differ only in the prefix v or in build metadata are the same.
func (h *VersionHold) holds(k KnownVersion) bool {
	if !sameImage(h.Image, k.Image) || h.Digest != "" && h.Digest != k.Digest {
		return false
	}
	if h.Version == k.Version {
		return true
	}
	held, v := parseVersion(h.Version), parseVersion(k.Version)
	return held != nil && v != nil && held.Compare(v) == 0
}

// previous returns the version that a commit replaces: the stored one, or a higher one that was stored before there was none.
func (a *versionAutomation) previous(key, stored string) string {
	if left := a.Left[key]; left != "" && (parseVersion(stored) == nil || isLower(stored, left)) {
		return left
	}
	return stored
}

// leave records the previous version while the stored one is not semantic.
func (a *versionAutomation) leave(key, previous, stored string) {
	if parseVersion(stored) != nil || parseVersion(previous) == nil {
		delete(a.Left, key)
		return
	}
	if a.Left == nil {
		a.Left = map[string]string{}
	}
	a.Left[key] = previous
}

// replaced reports whether a digest of an image was replaced by another one in a target.
func (a *versionAutomation) replaced(target, image, digest string) bool {
	layer := layerOf(target)
	return slices.ContainsFunc(a.Replaced, func(r replacedDigest) bool {
		return r.Digest == digest && r.Layer == layer && sameImage(r.Image, image)
	})
}

// sameImage reports whether two names are those of one image, such as redis and docker.io/library/redis.
func sameImage(a, b string) bool {
	return a == b || a != "" && b != "" && path.Base(a) == path.Base(b) && fullImage(a) == fullImage(b)
}

// fullImage returns the name of an image with its registry.
func fullImage(name string) string {
	host, rest, found := strings.Cut(name, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, rest = "docker.io", name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	if host == "docker.io" && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	return host + "/" + rest
}

// hold adds a hold, unless the version is held already. Beyond the limit, the hold of the lowest version ends, since automation never
// lowers a version; without semantic versions, the oldest one.
func (a *versionAutomation) hold(h VersionHold) (added bool) {
	if a.holdOf(KnownVersion{Image: h.Image, Version: h.Version, Digest: h.Digest}) != nil {
		return false
	}
	if a.Holds = append(a.Holds, h); len(a.Holds) > maxVersionHolds {
		lowest := 0
		for i, other := range a.Holds {
			if isLower(other.Version, a.Holds[lowest].Version) || parseVersion(a.Holds[lowest].Version) == nil && parseVersion(other.Version) != nil {
				lowest = i
			}
		}
		a.Holds = slices.Delete(a.Holds, lowest, lowest+1)
	}
	return true
}

// replace records that a digest was replaced.
func (a *versionAutomation) replace(target, image, digest string) {
	if digest == "" || a.replaced(target, image, digest) {
		return
	}
	if a.Replaced = append(a.Replaced, replacedDigest{layerOf(target), image, digest}); len(a.Replaced) > maxReplacedDigests {
		a.Replaced = a.Replaced[1:]
	}
}

// name describes the held version.
func (h *VersionHold) name() string {
	if h.Image != "" {
		return h.Image + "=" + h.Version
	}
	return "version=" + h.Version
}
