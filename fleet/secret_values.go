package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// checkSecretValues refuses new patches that look like secrets, if the rules do. A patch that the base has at the same place, in the
// stored document or in a rollout that changes it, is not new.
func (v *txValidation) checkSecretValues(edits []edit) error {
	if !v.next.rules.RefuseSecrets {
		return nil
	}
	var problems []Problem
	for _, e := range edits {
		switch {
		case e.doc == nil:
		case e.kind == KindRollout:
			for _, ch := range e.doc.rollout().Changes {
				problems = v.appendSecretValues(problems, docKey{ch.Kind, ch.ID}, ch.After)
			}
		default:
			problems = v.appendSecretValues(problems, docKey{e.kind, e.id}, e.doc.Body)
		}
		if len(problems) >= maxProblems {
			break
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &Error{Code: CodeSecretValue, Detail: summarizeProblems(problems), Problems: problems}
}

// appendSecretValues appends the problems of the body of a document.
func (v *txValidation) appendSecretValues(problems []Problem, key docKey, body json.RawMessage) []Problem {
	var known []map[string]api.PatchValues
	patches := patchesIn(key, body)
	for _, component := range sortedKeys(patches) {
		for _, path := range sortedKeys(patches[component]) {
			value := patches[component][path]
			if !secretLike(path, value) {
				continue
			}
			if known == nil {
				known = v.base.knownPatches(key)
			}
			if slices.ContainsFunc(known, func(p map[string]api.PatchValues) bool { return jsontext.Same(p[component][path], value) }) {
				continue
			}
			if component == "" {
				problems = append(problems, Problem{Pointer: jsontext.Pointer("variables", path), Kind: key.kind, ID: key.id, Detail: fmt.Sprintf(
					"the variable %q looks like a secret, and SECRET_VALUES=refuse: variables are stored and served in clear; put it into a Secret on the cluster, and name this Secret in values_from", path)})
				continue
			}
			at := jsontext.Pointer("patches", component, path)
			if key.kind == KindComponent {
				at = jsontext.Pointer("patches", path)
			}
			advice := fmt.Sprintf("put it into a Secret on the cluster, and name this Secret in values_from, with values_key, and target_path %q", path)
			if doc, ok := v.next.Get(KindComponent, component); ok && doc.Component().Type == typeKustomize {
				advice = "put it into a Secret on the cluster, and refer to this Secret in the manifests"
			}
			problems = append(problems, Problem{Pointer: at, Kind: key.kind, ID: key.id, Detail: fmt.Sprintf(
				"the patch %q of component %q looks like a secret, and SECRET_VALUES=refuse: patches are stored and served in clear; %s", path, component, advice)})
		}
	}
	return problems
}

// knownPatches returns the patches that a document has: stored, and with the change of each rollout.
func (s *State) knownPatches(key docKey) []map[string]api.PatchValues {
	var known []map[string]api.PatchValues
	if doc := s.docs[key.kind][key.id]; doc != nil {
		known = append(known, patchesIn(key, doc.Body))
	}
	for _, doc := range s.docs[KindRollout] {
		for _, ch := range doc.rollout().Changes {
			if ch.Kind == key.kind && ch.ID == key.id {
				known = append(known, patchesIn(key, ch.After))
			}
		}
	}
	return known
}

// patchesIn returns the patches in the body of a document, by component, and its variables by the empty text. Only components, clusters and layers have any.
func patchesIn(key docKey, body json.RawMessage) map[string]api.PatchValues {
	if key.kind == KindComponent {
		var component struct{ Patches api.PatchValues }
		if json.Unmarshal(body, &component) == nil {
			return map[string]api.PatchValues{key.id: component.Patches}
		}
	}
	if key.kind == KindCluster || key.kind == KindLayer {
		var doc struct {
			Patches   map[string]api.PatchValues
			Variables api.PatchValues
		}
		if json.Unmarshal(body, &doc) == nil {
			if len(doc.Variables) > 0 {
				patches := map[string]api.PatchValues{"": doc.Variables}
				maps.Copy(patches, doc.Patches)
				return patches
			}
			return doc.Patches
		}
	}
	return nil
}
