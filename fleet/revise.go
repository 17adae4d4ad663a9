package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// revision is a cluster being changed in its text and in its typed value side by side. The value is a copy; what it
// refers to is shared with other States, so fields are replaced and never changed in place. What is not replaced stays as it
// is stored: defaults that a stored document lacks are filled in when it is written as a whole (Tx.put), and not here.
type revision struct {
	doc    *Document // before
	fields []member  // of its text
	value  api.Cluster
	texts  map[string]json.RawMessage // of the fields that change; nil removes one
}

// revise begins to change a cluster. The operations that a batch runs on thousands of clusters are made of it.
func (tx *Tx) revise(cluster string) (*revision, error) {
	doc, err := tx.Get(KindCluster, cluster)
	if err != nil {
		return nil, err
	}
	r := &revision{doc: doc, value: *doc.Cluster(), texts: map[string]json.RawMessage{}}
	if r.fields, err = members(doc.Body); err != nil {
		return nil, r.unreadable(err)
	}
	return r, nil
}

// text is a field as it is stored; nil: it is not there. A document that names the field twice or in another case, as none
// that was written here does, is refused: its value was not made of the text that we would change.
func (r *revision) text(name string) (json.RawMessage, error) {
	var text json.RawMessage
	for _, m := range r.fields {
		if !strings.EqualFold(m.key, name) {
			continue
		}
		if m.key != name || text != nil {
			return nil, r.unreadable(fmt.Errorf("%q is there twice, or in another case", name))
		}
		text = m.value
	}
	return text, nil
}

// commit makes the revision the Tx's edit.
func (r *revision) commit(tx *Tx) (*Document, error) {
	for name := range r.texts {
		if _, err := r.text(name); err != nil {
			return nil, err
		}
	}
	body, err := setFields(r.fields, r.texts)
	if err != nil {
		return nil, err
	}
	value := r.value // a copy, as a pointer into r would keep all of it, and with it the document before
	doc := derive(Record{Kind: KindCluster, ID: r.doc.ID, Body: body}, clusterKind, &value)
	tx.edits[docKey{KindCluster, doc.ID}] = doc
	return doc, nil
}

func (r *revision) unreadable(err error) error {
	return fmt.Errorf("the stored cluster %q cannot be read: %w", r.doc.ID, err)
}

// entries are the texts of an assignment list.
func (r *revision) entries(a assigned) ([][]byte, error) {
	text, err := r.text(a.field)
	if err != nil {
		return nil, err
	}
	entries := elements(text)
	if n := len(a.ids(&r.value)); n != len(entries) {
		return nil, r.unreadable(fmt.Errorf("%s has %d entries, of which %d were understood", a.field, len(entries), n))
	}
	return entries, nil
}

// setPatches replaces a component's patches and who owns them.
func (r *revision) setPatches(component string, o *owned) error {
	owners := o.record()
	r.value.Patches = with(r.value.Patches, component, o.values)
	r.value.PatchOwners = with(r.value.PatchOwners, component, owners)
	if err := r.setIn("patches", component, o.values, len(o.values)); err != nil {
		return err
	}
	if len(r.value.PatchOwners) == 0 {
		r.value.PatchOwners, r.texts["patch_owners"] = nil, nil
		return nil
	}
	return r.setIn("patch_owners", component, owners, len(owners))
}

// setIn sets one key of an object that is a field of the cluster, or removes it when there is nothing (n is 0) to say.
func (r *revision) setIn(name, key string, value any, n int) error {
	object, err := r.text(name)
	if err != nil {
		return err
	}
	all, err := members(object)
	if err != nil {
		return r.unreadable(err)
	}
	var text json.RawMessage
	if n > 0 {
		if text, err = canonical(value); err != nil {
			return err
		}
	}
	r.texts[name], err = setFields(all, map[string]json.RawMessage{key: text})
	return err
}

// with is a map with one key set, or without it when there is nothing to say. The map itself stays as it is.
func with[M ~map[string]V, V ~map[string]E, E any](m M, key string, value V) M {
	out := make(M, len(m)+1)
	maps.Copy(out, m)
	if len(value) == 0 {
		delete(out, key)
	} else {
		out[key] = value
	}
	return out
}

// SetLabels changes a cluster's labels by an RFC 7396 merge patch.
func (tx *Tx) SetLabels(cluster string, patch []byte) (*Document, error) {
	r, err := tx.revise(cluster)
	if err != nil {
		return nil, err
	}
	request, err := ParseJSON(patch)
	if e, ok := errors.AsType[*Error](err); ok {
		for i := range e.Problems {
			e.Problems[i].Pointer = "/labels" + e.Problems[i].Pointer
		}
	}
	if err != nil {
		return nil, err
	}
	if request == nil { // as for every field of a document: null is its default
		request = map[string]any{}
		r.value.Labels = nil
	}
	labels := make(map[string]any, len(r.value.Labels))
	for k, v := range r.value.Labels {
		labels[k] = v
	}
	text, err := canonical(mergePatch(labels, request))
	if err != nil {
		return nil, err
	}
	r.value.Labels = nil
	if err := json.Unmarshal(fmt.Appendf(nil, `{"labels":%s}`, text), &r.value); err != nil {
		return nil, Invalid([]Problem{decodeProblem(typeError(err))})
	}
	r.texts["labels"] = text
	return r.commit(tx)
}

// Assign adds a definition to a cluster's list, or updates the assignment. settings is the body of the request: for a
// component its enabled flag and overrides (absent: unchanged, null: no override), nil for the other kinds.
func (tx *Tx) Assign(cluster string, kind Kind, id string, settings []byte) (*Document, error) {
	r, err := tx.revise(cluster)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Get(kind, id); err != nil {
		return nil, err
	}
	request := map[string]any{}
	if len(bytes.TrimSpace(settings)) > 0 {
		if request, err = ParseObject(settings); err != nil {
			return nil, err
		}
	}
	a, _ := assignmentOf(kind)
	entries, err := r.entries(a)
	if err != nil {
		return nil, err
	}
	at, entry := a.index(&r.value, id), map[string]any{"id": id}
	if at < 0 {
		at = len(entries)
		entries = append(entries, nil)
	} else if entry, err = decodeOwn(entries[at]); err != nil {
		return nil, r.unreadable(err)
	}
	maps.Copy(entry, request)
	if kind == KindComponent {
		normalizeAssignment(entry)
	}
	if entries[at], err = canonical(entry); err != nil {
		return nil, err
	}
	if err := a.put(&r.value, at, entries[at]); err != nil {
		return nil, Invalid([]Problem{decodeProblem(typeError(err))})
	}
	r.texts[a.field] = listOf(entries)
	return r.commit(tx)
}

// Unassign removes a definition from a cluster's list, and a component's patches with it. Nothing happens when it is
// not on the list.
func (tx *Tx) Unassign(cluster string, kind Kind, id string) (*Document, error) {
	r, err := tx.revise(cluster)
	if err != nil {
		return nil, err
	}
	a, _ := assignmentOf(kind)
	entries, err := r.entries(a)
	if err != nil {
		return nil, err
	}
	at := a.index(&r.value, id)
	if at < 0 {
		return r.doc, nil
	}
	for ; at >= 0; at = a.index(&r.value, id) {
		a.remove(&r.value, at)
		entries = append(entries[:at:at], entries[at+1:]...)
	}
	r.texts[a.field] = listOf(entries)
	if kind == KindComponent {
		if err := r.setPatches(id, &owned{}); err != nil {
			return nil, err
		}
	}
	return r.commit(tx)
}
