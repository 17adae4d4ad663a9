package fleet

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRandomEditsOfTypes runs random edits of types, definitions and assignments. The State of the change, of a follower of
// the log and of a start from the documents give the same answers, plans equal the effects, and refusals are domain errors.
func TestRandomEditsOfTypes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, string(KindCluster), `{"id":"k0","cluster_dns":"k0.example.com","environment":"dev"}`,
			string(KindCluster), `{"id":"k1","cluster_dns":"k1.example.com","environment":"dev"}`,
			string(KindResourceType), `{"id":"a","schema":{"type":"object","additionalProperties":false,"properties":{"p0":{"default":0}}}}`)
		followed := w.state
		for range rapid.IntRange(1, 20).Draw(rt, "commits") {
			var edits []func(*Tx) error
			what := ""
			for range rapid.IntRange(1, 3).Draw(rt, "edits") {
				edit, name := randomTypeEdit(rt)
				edits = append(edits, edit)
				what += name + "; "
			}
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			err := both(edits...)(tx)
			var res Result
			if err == nil {
				res, err = tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"})
			}
			if err != nil {
				var e *Error
				require.True(rt, errors.As(err, &e), "%s: %v", what, err)
				continue
			}
			if len(res.Commit.Changes) == 0 {
				continue
			}
			plan, err := res.Plan()
			require.NoError(rt, err, what)
			requirePlanned(rt, w.state, res.State, plan, what)
			if followed, err = followed.Apply(res.Commit); err != nil {
				require.NoError(rt, err, what)
			}
			loaded, err := NewState(testRules, res.State.head, res.State.at, slices.Collect(res.State.Records()))
			require.NoError(rt, err, what)
			for name, other := range map[string]*State{"followed": followed, "loaded": loaded} {
				require.Equal(rt, polls(rt, res.State), polls(rt, other), "%s: %s", name, what)
				sameTypes(rt, res.State, other)
			}
			for kind, docs := range res.State.docs {
				for id, doc := range docs {
					require.Equal(rt, followed.docs[kind][id].bound, doc.bound, what)
					require.Equal(rt, loaded.docs[kind][id].bound, doc.bound, what)
				}
			}
			for _, doc := range res.State.docs[KindCluster] {
				for _, a := range res.State.kinds.lists {
					answer, err := res.State.Answer(doc, a.kind)
					require.NoError(rt, err)
					require.GreaterOrEqual(rt, res.State.bound(res.State.Effective(doc), a), answer.Size, what)
				}
			}
			w.state = res.State
			w.now = w.now.Add(time.Minute)
		}
	})
}

func newCommitID(t *rapid.T) (id [16]byte) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "commit"))
	return id
}

// sameTypes: the kinds are equal, and every definition belongs to the current type.
func sameTypes(t require.TestingT, a, b *State) {
	names := func(s *State) (out []Kind) {
		for _, list := range s.kinds.lists {
			out = append(out, list.kind)
		}
		return out
	}
	require.Equal(t, names(a), names(b))
	require.ElementsMatch(t, slices.Collect(maps.Keys(a.docs)), slices.Collect(maps.Keys(b.docs)))
	for _, s := range []*State{a, b} {
		for _, list := range s.kinds.lists[s.kinds.compiledCount:] {
			require.Same(t, s.docs[KindResourceType][list.typeDoc.ID], list.typeDoc)
			for _, doc := range s.docs[list.kind] {
				require.Same(t, list.typeDoc, doc.value.(*resource).of)
			}
		}
	}
}

func randomTypeEdit(t *rapid.T) (func(*Tx) error, string) {
	n := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	typeID := rapid.SampledFrom([]string{"a", "ab", "a-b", "z"}).Draw(t, "type")
	kind, id, cluster := ResourceKind(typeID), fmt.Sprint("r", n("resource", 2)), fmt.Sprint("k", n("cluster", 1))
	properties := ""
	for i := range 1 + n("properties", 2) {
		properties += fmt.Sprintf(`,"p%d":{"default":%d}`, i, n("default", 2))
	}
	typ := fmt.Sprintf(`{"id":%q,"overridable":["p0"],"removal":%q,"schema":{"type":"object","additionalProperties":false,"properties":{%s}}}`,
		typeID, rapid.SampledFrom([]string{"delete", "keep"}).Draw(t, "removal"), properties[1:])
	spec := fmt.Sprintf(`{"id":%q,"spec":{"p%d":%d}}`, id, n("property", 2), n("value", 9))
	cascade := DeleteOptions{Cascade: rapid.Bool().Draw(t, "cascade")}
	switch rapid.IntRange(0, 8).Draw(t, "edit") {
	case 0:
		return create(KindResourceType, typ), "create " + typ
	case 1:
		return put(KindResourceType, typeID, typ), "put " + typ
	case 2:
		return remove(KindResourceType, typeID, cascade), "delete type " + typeID
	case 3, 4:
		return create(kind, spec), fmt.Sprint("create ", kind, spec)
	case 5:
		return put(kind, id, spec), fmt.Sprint("put ", kind, spec)
	case 6:
		return remove(kind, id, cascade), fmt.Sprint("delete ", kind, id)
	case 7:
		settings := rapid.SampledFrom([]string{"", `{"overrides":{"p0":5}}`, `{"overrides":{"p0":{"x":[]}}}`, `{"overrides":null}`}).Draw(t, "settings")
		return assign(cluster, kind, id, settings), fmt.Sprint("assign ", cluster, kind, id, settings)
	}
	return func(tx *Tx) error { _, err := tx.Unassign(cluster, kind, id); return err }, fmt.Sprint("unassign ", cluster, kind, id)
}

// TestAnswersBelongToTheirList: types are added and removed before and after others while clusters are polled, also by
// readers with an older State.
func TestAnswersBelongToTheirList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindCluster), `{"id":"k0","cluster_dns":"k0.example.com","environment":"dev"}`)
	schema := func(id string, version int) string {
		return fmt.Sprintf(`{"id":%q,"schema":{"type":"object","additionalProperties":false,"properties":{"of":{"default":"%s %d"}}}}`, id, id, version)
	}
	states := make(chan *State, 64)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for s := range states {
				cluster, _ := s.ByDNS(quotaDNS)
				for _, list := range s.kinds.lists[s.kinds.compiledCount:] {
					answer, err := s.Answer(cluster, list.kind)
					if err != nil {
						t.Error(err)
						return
					}
					body, err := answer.Body()
					want := string(list.typeDoc.value.(*resourceType).Schema)
					in := string(body)
					if err != nil || list.count(s.Effective(cluster)) > 0 && !containsDefault(in, want) {
						t.Errorf("%s is answered with %s, %v", list.kind, in, err)
					}
				}
			}
		})
	}
	typesOf := []string{"m", "a", "z", "mm"}
	for round := range 60 {
		id := typesOf[round%len(typesOf)]
		switch {
		case !w.state.Has(KindResourceType, id):
			w.state = w.mustQuietly(both(create(KindResourceType, schema(id, round)), create(ResourceKind(id), `{"id":"x"}`), assign("k0", ResourceKind(id), "x", "")))
		case round%3 == 0:
			w.state = w.mustQuietly(remove(KindResourceType, id, DeleteOptions{Cascade: true}))
		default:
			w.state = w.mustQuietly(both(put(KindResourceType, id, schema(id, round)), put(ResourceKind(id), "x", fmt.Sprintf(`{"spec":{"of":"%s %d"}}`, id, round))))
		}
		for range 8 {
			states <- w.state
		}
	}
	close(states)
	readers.Wait()
}

func (w *world) mustQuietly(edit func(*Tx) error) *State {
	tx := w.state.Begin()
	tx.Guard(Guard{Off: true})
	require.NoError(w.t, edit(tx))
	res, err := tx.Finish(Commit{ID: [16]byte{1}, At: w.now, Actor: "test"})
	require.NoError(w.t, err)
	return res.State
}

var defaultText = regexp.MustCompile(`"default":("[^"]*")`)

// containsDefault reports whether an answer has the default of its type's schema.
func containsDefault(answer, schema string) bool {
	return strings.Contains(answer, `"of":`+defaultText.FindStringSubmatch(schema)[1])
}
