package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// HoldVersion holds a version of a component or of one of its images, so that no policy moves to it, and aborts a rollout of a policy
// that would. The hold gets the time and the actor of the commit. It needs the right to write the component.
func (tx *Tx) HoldVersion(component string, h VersionHold) error {
	doc, err := tx.Get(KindComponent, component)
	if err != nil {
		return err
	}
	c := &checker{next: tx.base, limit: maxProblems}
	if c.required("/version", h.Version); !versionText.MatchString(h.Version) || len(h.Version) > maxVersionText {
		c.problem("/version", "must be a version or a tag of at most %d bytes", maxVersionText)
	} else if h.Image == "" && parseVersion(h.Version) == nil {
		c.problem("/version", "must be a semantic version such as 1.2.3: no policy moves a component to anything else")
	}
	c.digest("/digest", h.Digest)
	c.text("/reason", h.Reason, 1024)
	if h.Image != "" && !slices.ContainsFunc(doc.Component().ImagePolicies, func(p api.ImagePolicy) bool { return p.Image == h.Image }) {
		c.problem("/image", "component %q has no policy of this image", component)
	}
	if len(c.problems) > 0 {
		return Invalid(c.problems)
	}
	held := tx.automation(component)
	if held.holdOf(KnownVersion{Image: h.Image, Version: h.Version, Digest: h.Digest}) == nil && len(held.Holds) >= maxVersionHolds {
		return errorf(CodeLimitExceeded, "%d versions of component %q are held, which is the most: release some of them", len(held.Holds), component)
	}
	tx.versionHolds = append(tx.versionHolds, requestedHold{component, h})
	tx.recordOperation(api.RevisionOperation{Op: "hold_version", Kind: string(KindComponent), ID: component, Fields: []string{truncate(h.name())}})
	return nil
}

// ReleaseVersion releases the holds of a version. CodeNotFound: it is not held. It needs the right to write the component.
func (tx *Tx) ReleaseVersion(component, image, version string) error {
	if _, err := tx.Get(KindComponent, component); err != nil {
		return err
	}
	held := tx.automation(component)
	kept := slices.DeleteFunc(slices.Clone(held.Holds), func(h VersionHold) bool { return sameImage(h.Image, image) && h.Version == version })
	if len(kept) == len(held.Holds) {
		return errorf(CodeNotFound, "version %s of component %q is not held", excerpt(version), component)
	}
	held.Holds = kept
	tx.markHoldsChanged(component)
	h := VersionHold{Image: image, Version: version}
	tx.recordOperation(api.RevisionOperation{Op: "release_version", Kind: string(KindComponent), ID: component, Fields: []string{truncate(h.name())}})
	return tx.recordAutomation(held)
}

// automation returns a copy of the record of a component, with the edits of the Tx.
func (tx *Tx) automation(component string) *versionAutomation {
	out := &versionAutomation{ID: component}
	if d := tx.raw(KindVersionAutomation, component); d != nil {
		*out = *d.value.(*versionAutomation)
		out.Holds, out.Replaced, out.Left = slices.Clone(out.Holds), slices.Clone(out.Replaced), maps.Clone(out.Left)
	}
	return out
}

// recordAutomation records an edit of the record of a component; an empty record is deleted.
func (tx *Tx) recordAutomation(a *versionAutomation) error {
	if len(a.Principals)+len(a.Holds)+len(a.Replaced)+len(a.Left) == 0 {
		if tx.raw(KindVersionAutomation, a.ID) != nil {
			tx.record(KindVersionAutomation, a.ID, nil)
		}
		return nil
	}
	return tx.recordUnlessSame(KindVersionAutomation, a.ID, a)
}

// markHoldsChanged records that a request itself changes the holds of a component. That needs the right to write the component.
func (tx *Tx) markHoldsChanged(component string) {
	if tx.holdsChanged == nil {
		tx.holdsChanged = map[string]bool{}
	}
	tx.holdsChanged[component] = true
}

// updateVersionRecords updates the records of components for the edits of a Tx: who changed the policies, and which versions the commit
// replaces by older ones. It runs before the validation of the commit, so every change of a component, a layer or a rollout passes it.
func (tx *Tx) updateVersionRecords(c Commit) error {
	if tx.guard.proposed { // nothing is changed yet
		return nil
	}
	for _, h := range tx.versionHolds {
		held := tx.automation(h.component)
		h.By, h.At = c.Actor, c.At
		held.hold(h.VersionHold)
		tx.markHoldsChanged(h.component)
		if err := cmp.Or(tx.recordAutomation(held), tx.abortRolloutsTo(h)); err != nil {
			return err
		}
	}
	tx.noteDeletions()
	changed := tx.componentsWithVersionChanges()
	for _, id := range sortedKeys(changed) {
		if err := tx.updateVersionRecord(id, c); err != nil {
			return err
		}
	}
	return tx.holdVersionsOfRollouts(c)
}

// noteDeletions adds notes of version policies that name a layer or a strategy that the Tx deletes.
func (tx *Tx) noteDeletions() {
	for key, doc := range tx.edits {
		if doc != nil || key.kind != KindLayer && key.kind != KindStrategy {
			continue
		}
		tx.each(KindComponent, func(d *Document) {
			for target, policy := range d.Component().VersionPolicies {
				if key.kind == KindLayer && target == layerTarget+key.id || key.kind == KindStrategy && policy.Strategy == key.id {
					tx.note("the version policy %s of component %q names %s %q, which is deleted: change or delete the policy too", target, d.ID, key.kind, key.id)
				}
			}
		})
	}
}

// componentsWithVersionChanges returns the components whose policies or stored versions may differ from the base.
func (tx *Tx) componentsWithVersionChanges() map[string]bool {
	out, layers := map[string]bool{}, []string{}
	for key := range tx.edits {
		if key.kind == KindComponent {
			out[key.id] = true
		}
		if key.kind == KindLayer {
			layers = append(layers, layerTarget+key.id)
		}
	}
	if len(layers) == 0 {
		return out
	}
	tx.each(KindComponent, func(d *Document) {
		if slices.ContainsFunc(layers, func(target string) bool { return moves(d.Component(), target) }) {
			out[d.ID] = true
		}
	})
	return out
}

// updateVersionRecord updates the record of a component.
func (tx *Tx) updateVersionRecord(id string, c Commit) error {
	was, is := tx.base.componentDocument(id), tx.raw(KindComponent, id)
	if is == nil {
		if tx.raw(KindVersionAutomation, id) != nil {
			tx.record(KindVersionAutomation, id, nil)
		}
		return nil
	}
	held := tx.automation(id)
	retyped := was != nil && was.Component().Type != is.Component().Type
	if retyped {
		held.Holds, held.Replaced, held.Left = nil, nil, nil // they are versions of another artifact
	}
	targets, principals := policyTargets(is.Component()), map[string]policyPrincipal{}
	for _, target := range targets {
		if principals[target] = held.principal(target); retyped || encodedPolicy(is, target) != encodedPolicy(was, target) {
			principals[target] = policyPrincipal{c.Actor, tx.scope.identity()}
		}
		if was != nil && !retyped {
			tx.holdReplaced(held, targetAmong(is.Component(), target, tx.base.document), targetAmong(is.Component(), target, tx.raw), c)
		}
	}
	held.Principals = principals
	if was != nil && !retyped {
		for _, target := range movingTargets(was.Component(), false) {
			if !slices.Contains(targets, target) {
				held.leavePolicies(targetAmong(was.Component(), target, tx.base.document))
			}
		}
	}
	return tx.recordAutomation(held)
}

// leavePolicies records the versions that are stored when the policy of a target is removed.
func (a *versionAutomation) leavePolicies(t *versionTarget) {
	leave := func(image, stored string) {
		key := leftKey(t.name, image)
		a.leave(key, a.previous(key, stored), "")
	}
	if policyOf(t.component, t.name).Range != "" {
		leave("", t.chart().version)
	}
	for i := range t.component.ImagePolicies {
		if image := &t.component.ImagePolicies[i]; image.Track.Range != "" {
			leave(image.Image, t.image(image).version)
		}
	}
}

// holdReplaced holds the versions that a commit takes back in a target: it replaces them by older ones, by digests that were replaced before, or
// through a revert or restore. The older version may be stored in a later commit than the one that removes the newer one.
func (tx *Tx) holdReplaced(held *versionAutomation, was, is *versionTarget, c Commit) {
	p, target := is.component, is.name
	recalled := tx.reverts && c.Actor != VersionAutomation
	hold := func(h VersionHold, to string) {
		h.At, h.By, h.Reason = c.At, c.Actor, "replaced by "+to
		if recalled {
			h.Reason = "taken back to " + to
		}
		tx.addHold(held, h)
	}
	takenBack := func(image, from, to string) {
		key := leftKey(target, image)
		previous := held.previous(key, from)
		if isLower(to, previous) {
			hold(VersionHold{Image: image, Version: previous}, to)
		}
		held.leave(key, previous, to)
	}
	if policyOf(p, target).Range != "" {
		takenBack("", was.chart().version, is.chart().version)
	}
	for i := range p.ImagePolicies {
		image := &p.ImagePolicies[i]
		from, to := was.image(image), is.image(image)
		switch {
		case from.problem != "" || to.problem != "":
		case image.Track.Range != "":
			takenBack(image.Image, from.version, to.version)
		case image.Track.Tag == "" || from.digest == "" || from.digest == to.digest:
		case recalled || held.replaced(target, image.Image, to.digest):
			hold(VersionHold{Image: image.Image, Version: cmp.Or(from.version, image.Track.Tag), Digest: from.digest}, cmp.Or(to.digest, "no digest"))
		default:
			held.replace(target, image.Image, from.digest)
		}
	}
}

// addHold adds a hold that is not requested, with a note.
func (tx *Tx) addHold(held *versionAutomation, h VersionHold) {
	if held.hold(h) {
		tx.note("version %s of component %q is held: its policies do not move to it again until a person releases it", h.Version, held.ID)
	}
}

// holdVersionsOfRollouts holds the versions of rollouts that the commit aborts, deletes or rolls back.
func (tx *Tx) holdVersionsOfRollouts(c Commit) error {
	if c.Actor == VersionAutomation {
		return nil
	}
	rollouts := map[string]*Document{}
	for key, doc := range tx.edits {
		if key.kind == KindRollout && !tx.abortedByHold[key.id] { // a hold of one version holds no other
			rollouts[key.id] = doc
		}
	}
	for _, id := range sortedKeys(rollouts) {
		was, is := tx.base.docs[KindRollout][id], rollouts[id]
		if was == nil || !was.rollout().open() {
			continue
		}
		var how string
		switch {
		case is == nil || is.rollout().State == rolloutAborted:
			how = "aborted"
		case is.rollout().Started < was.rollout().Started:
			how = "rolled back"
		default:
			continue
		}
		if err := tx.holdRollout(was.rollout(), how, c); err != nil {
			return err
		}
	}
	return nil
}

// holdRollout holds the versions that a rollout would move components with policies to.
func (tx *Tx) holdRollout(r *rollout, how string, c Commit) error {
	for _, ch := range r.Changes {
		target := catalogTarget
		switch ch.Kind {
		case KindComponent:
		case KindLayer:
			target = layerTarget + ch.ID
		default:
			continue
		}
		before, err := tx.kinds.document(Record{Kind: ch.Kind, ID: ch.ID, Body: ch.Before})
		if err != nil {
			return err
		}
		after, err := tx.kinds.document(Record{Kind: ch.Kind, ID: ch.ID, Body: ch.After})
		if err != nil {
			return err
		}
		var of []*api.PlatformComponent
		tx.each(KindComponent, func(d *Document) {
			if p := d.Component(); moves(p, target) && (ch.Kind == KindLayer || ch.ID == p.ID) {
				of = append(of, p)
			}
		})
		for _, p := range of {
			if err := tx.holdMoved(readTarget(p, before), readTarget(p, after), fmt.Sprintf("rollout %q was %s", r.ID, how), c); err != nil {
				return err
			}
		}
	}
	return nil
}

// holdMoved holds the versions that differ between two versions of the target of a component's policy.
func (tx *Tx) holdMoved(was, is *versionTarget, reason string, c Commit) error {
	p := is.component
	held := tx.automation(p.ID)
	hold := func(image string, from, to storedVersion, digest string) {
		if to.version != "" && to.problem == "" && (from.version != to.version || from.digest != to.digest) && !isLower(to.version, from.version) {
			tx.addHold(held, VersionHold{Image: image, Version: to.version, Digest: digest, At: c.At, By: c.Actor, Reason: reason})
		}
	}
	if policyOf(p, is.name).Range != "" {
		hold("", was.chart(), is.chart(), "")
	}
	for i := range p.ImagePolicies {
		image := &p.ImagePolicies[i]
		from, to := was.image(image), is.image(image)
		digest := ""
		if image.Track.Tag != "" {
			to.version, digest = cmp.Or(to.version, image.Track.Tag), to.digest
		}
		hold(image.Image, from, to, digest)
	}
	return tx.recordAutomation(held)
}

// abortRolloutsTo aborts the rollouts of policies that would move a component to a held version and have not started.
func (tx *Tx) abortRolloutsTo(h requestedHold) error {
	for _, d := range tx.base.All(KindRollout) {
		r := *d.rollout()
		now, err := tx.Get(KindRollout, d.ID)
		if err != nil || r.Automation == "" || !r.open() || !now.rollout().open() {
			continue
		}
		if !slices.ContainsFunc(r.Versions, func(v rolloutVersion) bool {
			return v.Component == h.component && h.holds(KnownVersion{Image: v.Image, Version: v.Version, Digest: v.Digest})
		}) {
			continue
		}
		if r.Started > 0 {
			tx.note("rollout %q has started, and moves component %q to the held version: pause or abort it to stop that", d.ID, h.component)
			continue
		}
		r.State = rolloutAborted
		doc, err := tx.kinds.newRecord(KindRollout, d.ID, &r)
		if err != nil {
			return err
		}
		tx.record(KindRollout, d.ID, doc)
		if tx.abortedByHold == nil {
			tx.abortedByHold = map[string]bool{}
		}
		tx.abortedByHold[d.ID] = true
		tx.note("rollout %q is aborted: it would move component %q to the held version", d.ID, h.component)
	}
	return nil
}
