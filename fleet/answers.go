package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Answer returns the answer to a cluster's polls of one kind of definition. It is encoded at the first call after a document
// that it depends on has changed. It returns CodeUnresolved if stored data refers to a missing document: never a shorter
// list.
func (s *State) Answer(d *Document, kind Kind) (*Answer, error) {
	list := s.kinds.byKind[kind]
	if list == nil {
		return nil, fmt.Errorf("%q is not a kind of definition", kind)
	}
	return s.answer(s.Effective(d), d, list)
}

// answer is Answer for a configuration of a cluster.
func (s *State) answer(e *Effective, d *Document, list *descriptor) (*Answer, error) {
	if a := s.cachedAnswer(e, list); a != nil {
		return a, nil
	}
	if list.count(e) == 0 {
		return emptyAnswer() // one value for all clusters and types
	}
	inputs, deps, err := s.resolveInputs(e, list, nil)
	if err != nil {
		return nil, err
	}
	a, err := answerWithReceipts(inputs, d.incarnation())
	if err != nil {
		return nil, err
	}
	a.Count, a.deps = len(deps), deps
	a.current.Store(s.id)
	e.answers.store(s.kinds, list, a)
	return a, nil
}

// Inputs returns the inputs of a cluster's list as polls have them: all, or those with some ids. It bypasses the cached answers, which
// polls of another State need.
func (s *State) Inputs(d *Document, endpoint string, only map[string]bool) ([]json.RawMessage, error) {
	list := s.kinds.byEndpoint[endpoint]
	if list == nil {
		return nil, s.notFound(KindResourceType, endpoint)
	}
	inputs, _, err := s.resolveInputs(s.Effective(d), list, only)
	if err != nil {
		return nil, err
	}
	out := make([]json.RawMessage, len(inputs))
	for i, in := range inputs {
		if out[i], _, err = withReceipt(in.value, d.incarnation()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// answerWithReceipts encodes inputs with their receipts. If the receipts make the answer larger than Flux reads, it encodes
// the inputs without them, as before receipts existed: missing receipts do less harm than an answer that Flux rejects.
func answerWithReceipts(inputs []input, incarnation int) (*Answer, error) {
	all, receipts, err := withReceipts(inputs, incarnation)
	if err != nil {
		return nil, err
	}
	a, err := encodeAnswer(all)
	if err != nil || a.Size <= MaxAnswerBytes {
		if err == nil {
			a.receipts = receipts
		}
		return a, err
	}
	return encodeAnswer(values(inputs))
}

// answersDiffer reports whether the answers to a cluster differ between configuration was in State before, and configuration is in
// this State. Both States may be the same.
func (s *State) answersDiffer(before *State, cluster string, was, is *Effective) bool {
	if s.sameAnswers(before, was, is) {
		return false
	}
	etag := func(s *State, list *descriptor, e *Effective) string {
		if list = s.kinds.byKind[list.kind]; list == nil || list.count(e) == 0 {
			return ""
		}
		a, err := s.answer(e, s.docs[KindCluster][cluster], list)
		if err != nil {
			return err.Error()
		}
		return a.ETag
	}
	return slices.ContainsFunc(s.kinds.listsWithRemoved(before.kinds), func(list *descriptor) bool {
		return etag(before, list, was) != etag(s, list, is)
	})
}

// cachedAnswer returns the answer that was encoded earlier; nil: there is none, or a definition has changed since.
func (s *State) cachedAnswer(e *Effective, list *descriptor) *Answer {
	a := e.answers.load(list)
	if a == nil || a.current.Load() != s.id && !s.stillMadeOf(e, list, a.deps) {
		return nil
	}
	a.current.Store(s.id)
	return a
}

// stillMadeOf reports whether definitions that a cluster's list was made of are unchanged in this State.
func (s *State) stillMadeOf(e *Effective, list *descriptor, definitions []*Document) bool {
	for _, dep := range definitions {
		if doc, _ := s.definition(e, list.kind, dep.ID); !sameDocument(doc, dep) {
			return false
		}
	}
	return true
}

// resolveInputs merges a cluster with its assigned definitions, in the order of assignment; with only, it computes just these
// inputs. A bug here must not look like an empty list, so the list is built only after every reference has been resolved.
func (s *State) resolveInputs(d *Effective, list *descriptor, only map[string]bool) ([]input, []*Document, error) {
	var deps []*Document
	for id := range list.entries(d) {
		def, ok := s.definition(d, list.kind, id)
		if !ok {
			return nil, nil, errorf(CodeUnresolved, "cluster %q refers to the %s %q, which is not in the store", d.id, list.rules.noun, id)
		}
		if def.refers {
			return nil, nil, errorf(CodeUnresolved, "the %s %q has a reference without a value on cluster %q", list.rules.noun, id, d.id)
		}
		deps = append(deps, def)
	}
	if len(d.unresolved) > 0 {
		return nil, nil, errorf(CodeUnresolved, "cluster %q has a reference without a value: %v", d.id, d.unresolved[0].err)
	}
	inputs, err := list.buildInputs(&inputContext{state: s, cluster: d}, deps, only)
	return inputs, deps, err
}

// resolves reports whether the State has all definitions of a cluster's list.
func (s *State) resolves(e *Effective, list *descriptor) bool {
	docs := s.docs[list.kind]
	for id := range list.entries(e) {
		if docs[id] != nil {
			continue
		}
		if _, ok := s.definition(e, list.kind, id); !ok {
			return false
		}
	}
	return true
}

// sameInput reports whether an input is certainly the same on two clusters, apart from the cluster block: it is built of the same
// definitions and equal settings. Without comparePatches it ignores the patches of the clusters. It also returns true if neither cluster
// has the input.
func (s *State) sameInput(list *descriptor, id string, a, b *Effective, comparePatches bool) bool {
	if a == b {
		return true
	}
	doc, _ := s.definition(a, list.kind, id)
	if other, _ := s.definition(b, list.kind, id); other != doc || !list.sameEntry(a, b, id) || comparePatches && !list.sameOverrides(a, b, id) {
		return false
	}
	return doc == nil || !slices.ContainsFunc(list.dependsOn(doc), func(dep string) bool {
		one, _ := s.definition(a, list.kind, dep)
		other, _ := s.definition(b, list.kind, dep)
		on, has := list.enabled(a, dep)
		otherOn, otherHas := list.enabled(b, dep)
		return one != other || on != otherOn || has != otherHas
	})
}

// ClustersAnswer returns the list of all live clusters, encoded at the first call. See the function ClustersAnswer.
func (s *State) ClustersAnswer() (*Answer, error) {
	if s.visible != nil {
		return nil, errors.New("clusters cannot be answered from a State with only the visible documents")
	}
	s.clusters.once.Do(func() { s.clusters.answer, s.clusters.err = ClustersAnswer(s.All(KindCluster)) })
	return s.clusters.answer, s.clusters.err
}

// ClustersAnswer returns the list of the given clusters as inputs. CodeLimitExceeded if it is larger than Flux reads.
func ClustersAnswer(clusters []*Document) (*Answer, error) {
	inputs := make([]any, len(clusters))
	for i, d := range clusters {
		c := d.Cluster()
		inputs[i] = api.FluxClusterEntry{ID: c.ID, ClusterName: c.ClusterName, ClusterDNS: c.ClusterDNS, Environment: c.Environment, Labels: c.Labels}
	}
	a, err := encodeAnswer(inputs)
	if err != nil {
		return nil, err
	}
	if a.Size > MaxAnswerBytes || len(clusters) > MaxInputs {
		return nil, errorf(CodeLimitExceeded, "%s, %d bytes: Flux Operator accepts %d inputs and %d bytes; narrow the list with environment or selector",
			plural(len(clusters), "cluster"), a.Size, MaxInputs, MaxAnswerBytes)
	}
	a.Count = len(clusters)
	return a, nil
}
