package fleet

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// hiddenRollout replaces the id of a rollout that is not visible. No rollout has this id.
const hiddenRollout = "(hidden)"

// Origin is a document that determines inputs of a cluster, in the version that the cluster has.
type Origin struct {
	*Document
	Object map[string]any // the content
	// Stored is the content of the stored document, if the cluster has another version of it because of Rollouts; otherwise nil.
	Stored   map[string]any
	Rollouts []OriginRollout
}

// OriginRollout is a rollout that changes an origin for some clusters, with the content before and after its change.
type OriginRollout struct {
	ID            string // a placeholder if the rollout is not visible
	Before, After map[string]any
}

// BuiltInput is an input of a cluster with the documents that determine it. The settings of the cluster are not among them:
// see [State.Origins].
type BuiltInput struct {
	List       string // the last part of the path that clusters poll
	Field      string // the list in documents; for a resource type, below their resources
	ID         string
	Value      any // it encodes to the JSON that clusters poll, without the receipt
	Definition Origin
	Type       *Origin // the resource type of the definition; nil: it has none
}

// Origins returns the documents that determine the configuration of a cluster: its own document, or the settings of its pin, then its
// layers, the highest first.
func (s *State) Origins(d *Document) ([]Origin, error) {
	if p := s.pinned[d.ID]; p != nil {
		d = p.settings
	}
	docs := []*Document{d}
	if st := s.Effective(d).chain; st != nil {
		for _, l := range slices.Backward(st.layers) {
			docs = append(docs, l)
		}
	}
	origins := make([]Origin, len(docs))
	for i, doc := range docs {
		var err error
		if origins[i], err = s.originOn(s.Effective(d), doc); err != nil {
			return nil, err
		}
	}
	return origins, nil
}

// BuiltInputs yields the inputs of a cluster in the order of polls: all, or those of one list, or the one with an id.
// CodeNotFound if there is no such list or input. An error is the last element.
func (s *State) BuiltInputs(d *Document, list, id string) iter.Seq2[BuiltInput, error] {
	return func(yield func(BuiltInput, error) bool) {
		lists := s.kinds.lists
		if list != "" {
			a := s.kinds.byEndpoint[list]
			if a == nil {
				yield(BuiltInput{}, errorf(CodeNotFound, "there is no list %q", list))
				return
			}
			lists = []*descriptor{a}
		}
		for _, a := range lists {
			if more, err := s.builtInputs(d, a, id, yield); err != nil {
				yield(BuiltInput{}, err)
				return
			} else if !more {
				return
			}
		}
	}
}

// builtInputs yields the inputs of one list.
func (s *State) builtInputs(d *Document, a *descriptor, id string, yield func(BuiltInput, error) bool) (more bool, err error) {
	has := s.Effective(d)
	var only map[string]bool
	if id != "" {
		only = map[string]bool{id: true}
	}
	inputs, _, err := s.resolveInputs(has, a, only)
	if err != nil {
		return false, err
	}
	if id != "" && len(inputs) == 0 {
		return false, errorf(CodeNotFound, "cluster %q has no %s %q", d.ID, a.rules.noun, id)
	}
	var of *Origin
	if a.typed {
		typed, err := originOf(a.typeDoc)
		if err != nil {
			return false, err
		}
		of = &typed
	}
	for _, in := range inputs {
		doc, _ := s.definition(has, a.kind, in.id)      // the input was built from it
		if has.chain != nil && has.chain.facts != nil { // or from its text with the values of references
			for _, from := range has.chain.facts.definitions {
				if from.Kind == a.kind && from.ID == in.id {
					doc = from
				}
			}
		}
		def, err := s.originOn(has, doc)
		if err != nil {
			return false, err
		}
		if !yield(BuiltInput{List: a.endpoint, Field: a.field, ID: in.id, Value: in.value, Definition: def, Type: of}, nil) {
			return false, nil
		}
	}
	return true, nil
}

// originOn returns a document as a cluster has it.
func (s *State) originOn(has *Effective, doc *Document) (Origin, error) {
	origin, err := originOf(doc)
	stored, exists := s.docs[doc.Kind][doc.ID]
	if err != nil || !exists || len(has.rolloutsOn()) == 0 || has.chain == nil || has.chain.variant(doc.Kind, doc.ID) == nil {
		return origin, err
	}
	if origin.Stored, err = unstructured.Decode(stored.Body); err != nil {
		return origin, stored.Unreadable(err)
	}
	for _, d := range has.rolloutsOn() {
		for _, ch := range d.rollout().Changes {
			if ch.Kind != doc.Kind || ch.ID != doc.ID {
				continue
			}
			r := OriginRollout{ID: d.ID}
			if s.docs[KindRollout][d.ID] == nil {
				r.ID = hiddenRollout
			}
			if r.Before, err = unstructured.Decode(ch.Before); err == nil {
				r.After, err = unstructured.Decode(ch.After)
			}
			if err != nil {
				return origin, d.Unreadable(err)
			}
			origin.Rollouts = append(origin.Rollouts, r)
		}
	}
	return origin, nil
}

// originOf returns a stored document as an origin.
func originOf(d *Document) (Origin, error) {
	obj, err := unstructured.Decode(d.Body)
	if err != nil {
		return Origin{}, d.Unreadable(err)
	}
	return Origin{Document: d, Object: obj}, nil
}

// ResolvedReference is a reference with its value on a cluster, and the setting of a document that the value is from.
type ResolvedReference struct {
	Reference, Value string
	Kind             Kind
	ID, Pointer      string
	Text             json.RawMessage // at the pointer
}

// ReferencesIn returns the references in a setting of a cluster or one of its definitions, and those in the variables that they are to.
func (s *State) ReferencesIn(d *Document, text string) (out []ResolvedReference) {
	has := s.Effective(d)
	if has.chain == nil || has.chain.facts == nil {
		return nil
	}
	own, seen := has.withoutLayers().cluster, map[string]bool{}
	look := resolver{own: own, layers: has.chain.layers, known: map[string]*resolved{}}
	for todo := []string{text}; len(todo) > 0; todo = todo[1:] {
		found, _ := variables.Find(todo[0])
		for _, ref := range found {
			if seen[ref] {
				continue
			}
			seen[ref] = true
			one := ResolvedReference{Reference: ref, Value: look.resolve(ref).text, Kind: KindCluster, ID: d.ID}
			switch name, label := variables.Parts(ref); {
			case name != "":
				raw, layer := variableOf(own, look.layers, name)
				if layer != nil {
					one.Kind, one.ID = KindLayer, layer.ID
				}
				one.Pointer, one.Text = jsontext.Pointer("variables", name), raw
				todo = append(todo, string(raw))
			case label != "":
				one.Pointer = jsontext.Pointer("labels", label)
			default:
				field := strings.TrimSuffix(strings.TrimPrefix(ref, "${cluster."), "}")
				one.Pointer = jsontext.Pointer(map[string]string{"id": "id", "name": "cluster_name", "dns": "cluster_dns", "environment": "environment"}[field])
			}
			if one.Text == nil {
				one.Text, _ = jsontext.Canonical(one.Value) // encoding a string cannot fail
			}
			out = append(out, one)
		}
	}
	return out
}
