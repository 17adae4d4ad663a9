package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

// checkLog applies the log and checks, at each revision, the answers with that revision and the writes acknowledged at
// it.
func (j *judge) checkLog() {
	polls := map[int64][]*history.Poll{}
	for i := range j.h.Polls {
		p := &j.h.Polls[i]
		polls[p.Revision] = append(polls[p.Revision], p)
	}
	writes := map[int64][]*history.Write{}
	for i := range j.h.Writes {
		if w := &j.h.Writes[i]; w.Acknowledged() {
			writes[w.Revision] = append(writes[w.Revision], w)
		}
	}
	state, err := fleet.NewState(fleet.Rules{}, fleet.Head{}, time.Time{}, nil)
	if err != nil {
		j.violate(Log, "the empty fleet: %v", err)
		return
	}
	docs := map[docKey]json.RawMessage{}
	seen := map[*fleet.Answer]bool{}
	turn := func(rev int64) {
		j.checkPolls(state, docs, polls[rev], seen)
		for _, w := range writes[rev] {
			j.checkWrite(w, docs)
		}
		delete(polls, rev)
		delete(writes, rev)
	}
	turn(0)
	for i, c := range j.h.Commits {
		if int64(c.Revision) != int64(i)+1 {
			j.violate(Log, "revision %d is the %d. commit of the log", c.Revision, i+1)
			return
		}
		j.checkChain(c, docs)
		if state, err = state.Apply(c.Fleet()); err != nil {
			j.violate(Log, "revision %d does not follow from the one before: %v", c.Revision, err)
			return
		}
		turn(int64(c.Revision))
	}
	j.checkUnstated(polls[-1])
	delete(polls, -1)
	for rev, ps := range polls {
		for _, p := range ps {
			if p.Status == 200 || p.Status == 304 {
				j.violate(Whole, "%s: the answer states revision %d, which is not in the log", j.describe(p), rev)
			}
		}
	}
	j.verdict.Answers = len(seen)
}

type docKey struct {
	kind fleet.Kind
	id   string
}

// checkChain: each commit must start from the documents of its predecessor. Otherwise it was computed from older ones,
// and an update is lost.
func (j *judge) checkChain(c history.Commit, docs map[docKey]json.RawMessage) {
	for _, ch := range c.Changes {
		key := docKey{ch.Kind, ch.ID}
		if !bytes.Equal(docs[key], ch.Before) {
			j.violate(Durable, "revision %d (%s) changes a %s %q that was not the newest: an update is lost", c.Revision, c.RequestID, ch.Kind, ch.ID)
		}
		if ch.After == nil {
			delete(docs, key)
		} else {
			docs[key] = ch.After
		}
	}
}

// checkWrite: at the revision of an acknowledged write, its effect must be visible.
func (j *judge) checkWrite(w *history.Write, docs map[docKey]json.RawMessage) {
	if w.Revision > 0 && len(j.h.Commits) >= int(w.Revision) {
		if _, made := j.byID[w.ID]; !made && w.Op != opComeAndGo && w.Op != OpToggle {
			j.violate(Durable, "%s was acknowledged as revision %d and is not in the log", describe(*w), w.Revision)
			return
		}
	}
	for _, want := range w.Wants {
		body, ok := docs[docKey{want.Kind, want.ID}]
		switch {
		case want.Gone && ok:
			j.violate(Durable, "%s was acknowledged as revision %d, and the %s %q is still there", describe(*w), w.Revision, want.Kind, want.ID)
		case !want.Gone && !ok,
			want.Has != "" && !strings.Contains(string(body), want.Has),
			want.Not != "" && strings.Contains(string(body), want.Not):
			j.violate(Durable, "%s was acknowledged as revision %d, and the %s %q is not as it wants: %s", describe(*w), w.Revision, want.Kind, want.ID, body)
		}
	}
}

// opComeAndGo writes may be no-ops, because an earlier one may have succeeded although its answer was lost. OpToggle
// writes may be no-ops because another client was faster.
const opComeAndGo = "come-and-go"

// checkPolls checks the polls answered at the revision of s.
func (j *judge) checkPolls(s *fleet.State, docs map[docKey]json.RawMessage, polls []*history.Poll, seen map[*fleet.Answer]bool) {
	for _, p := range polls {
		if p.Mixed != "" && (p.Status == 200) {
			j.violate(Whole, "%s: documents that change together differ: %s", j.describe(p), p.Mixed)
		}
		if p.Endpoint < 0 || p.Endpoint >= len(j.h.Run.Endpoints) {
			j.violate(Log, "%s: there is no such endpoint", j.describe(p))
			continue
		}
		e := j.h.Run.Endpoints[p.Endpoint]
		doc, ok := s.ByDNS(e.DNS)
		if !ok {
			j.checkAbsent(p)
			continue
		}
		answer, err := s.Answer(doc, e.Resource)
		if err != nil {
			j.checkDoubtful(p, err)
			continue
		}
		if !seen[answer] {
			seen[answer] = true
			j.checkAnswer(answer, e.Resource, docs[docKey{fleet.KindCluster, doc.ID}])
		}
		j.checkPoll(p, answer)
	}
}

// checkAnswer compares the product's own answer with the stored document: it must have the document's entries in the
// same order. Without this check the product and this package could err together, because they share the code that makes
// answers.
func (j *judge) checkAnswer(a *fleet.Answer, kind fleet.Kind, cluster json.RawMessage) {
	body, err := a.Body()
	var got struct {
		Inputs []struct{ ID string }
	}
	if err == nil {
		err = json.Unmarshal(body, &got)
	}
	type entry struct{ ID string }
	var document map[string]json.RawMessage
	var want []entry
	if err == nil {
		err = json.Unmarshal(cluster, &document)
	}
	if err == nil {
		err = json.Unmarshal(document[kind.Collection()], &want)
	}
	if err != nil {
		j.violate(Log, "the answer of %s cannot be compared with the document: %v", kind.Endpoint(), err)
		return
	}
	if !slices.EqualFunc(got.Inputs, want, func(a struct{ ID string }, b entry) bool { return a.ID == b.ID }) {
		j.violate(NoWrongEmpty, "the cluster's document lists %v and its answer %v", want, got.Inputs)
	}
}

func (j *judge) checkPoll(p *history.Poll, want *fleet.Answer) {
	switch p.Status {
	case 0, 500, 502, 503, 504:
	case 200:
		sum := strings.Trim(want.ETag, `"`)
		switch {
		case p.Sum == sum && p.ETag == want.ETag:
		case p.Inputs < want.Count:
			j.violate(NoWrongEmpty, "%s: %d inputs, and revision %d has %d%s", j.describe(p), p.Inputs, p.Revision, want.Count, excerpt(p.Body))
		default:
			j.violate(Whole, "%s: the body is %s with ETag %s, and revision %d has %s%s", j.describe(p), p.Sum, p.ETag, p.Revision, want.ETag, excerpt(p.Body))
		}
	case 304:
		if p.Known != want.ETag {
			j.violate(Whole, "%s: %s is said to be current, and revision %d has %s", j.describe(p), p.Known, p.Revision, want.ETag)
		}
	default:
		j.violate(Doubt, "%s: answered with %d, and revision %d has this cluster", j.describe(p), p.Status, p.Revision)
	}
}

// checkAbsent checks a poll of a cluster that does not exist at the revision.
func (j *judge) checkAbsent(p *history.Poll) {
	switch {
	case p.Status == 200 || p.Status == 304:
		j.violate(Whole, "%s: answered with %d, and revision %d has no such cluster", j.describe(p), p.Status, p.Revision)
	case p.Status != 0 && p.Status != 404 && p.Status < 500:
		j.violate(Doubt, "%s: answered with %d", j.describe(p), p.Status)
	}
}

// checkDoubtful checks a poll whose answer cannot be computed from the stored documents.
func (j *judge) checkDoubtful(p *history.Poll, why error) {
	switch {
	case p.Status == 200 || p.Status == 304:
		j.violate(Doubt, "%s: answered with %d and %d inputs, although %v", j.describe(p), p.Status, p.Inputs, why)
	case p.Status != 0 && p.Status < 500:
		j.violate(Doubt, "%s: answered with %d, although %v", j.describe(p), p.Status, why)
	}
}

// checkUnstated checks answers without a revision: only errors may lack one.
func (j *judge) checkUnstated(polls []*history.Poll) {
	for _, p := range polls {
		switch {
		case p.Status == 200 && p.Inputs <= 0:
			j.violate(NoWrongEmpty, "%s: an answer without inputs and without a revision%s", j.describe(p), excerpt(p.Body))
		case p.Status != 0 && p.Status < 500:
			j.violate(Doubt, "%s: answered with %d and without a revision", j.describe(p), p.Status)
		}
	}
}

func (j *judge) describe(p *history.Poll) string {
	return fmt.Sprintf("%s: %s at %s-%d", at(p.To), j.endpoint(p.Endpoint), p.Process, p.Incarnation)
}

func excerpt(body string) string {
	if body == "" {
		return ""
	}
	return ": " + body[:min(len(body), 300)]
}
