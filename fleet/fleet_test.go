package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// world is a fleet under test. Its clock moves only when a test moves it.
type world struct {
	t     *testing.T
	state *State
	now   time.Time
	log   log
}

// log is the history of a world.
type log struct {
	commits []Commit
	past    Documents // the answer of Past to any query
	oldest  Revision  // of the commits that DocumentLog reads
}

func (l *log) Past(PastQuery) (Documents, error) { return l.past, nil }

func (l *log) Changes(rev Revision) ([]Change, error) {
	for _, c := range l.commits {
		if c.Revision == rev {
			return c.Changes, nil
		}
	}
	return nil, nil
}

func (l *log) Commit(rev Revision) (Commit, error) {
	for _, c := range l.commits {
		if c.Revision == rev {
			return c, nil
		}
	}
	return Commit{}, nil
}

// DocumentLog answers from the commits since oldest; zero: from all.
func (l *log) DocumentLog(q DocumentLogQuery) (DocumentLog, error) {
	out, revisions := DocumentLog{Oldest: max(l.oldest, 1)}, 0
	for _, c := range slices.Backward(l.commits) {
		if c.Revision >= q.Before || c.Revision < l.oldest {
			continue
		}
		had := len(out.Changes)
		for _, ch := range c.Changes {
			if slices.Contains(q.Documents, DocumentName{ch.Kind, ch.ID}) || slices.Contains(q.Documents, DocumentName{Kind: ch.Kind}) {
				out.Changes = append(out.Changes, DocumentChange{c.Revision, ch})
			}
		}
		if len(out.Changes) > had {
			revisions++
		}
		if revisions == q.Limit {
			break
		}
	}
	return out, nil
}

var testRules = Rules{Environments: []string{"dev", "qa", "uat", "prod"}, MaxRemovals: 50}

func newWorld(t *testing.T, docs ...string) *world {
	t.Helper()
	empty, err := NewState(testRules, Head{}, time.Time{}, nil)
	require.NoError(t, err)
	w := &world{t: t, state: empty, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if len(docs) == 0 {
		return w
	}
	w.must(func(tx *Tx) error {
		for i := 0; i < len(docs); i += 2 {
			if _, err := tx.Create(Kind(docs[i]), []byte(docs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

// demo is the fleet of examples/demo.
func demo(t *testing.T) *world {
	t.Helper()
	body, err := os.ReadFile("../examples/demo/seed.json")
	require.NoError(t, err)
	seed, err := ParseSeed(body)
	require.NoError(t, err)
	w := newWorld(t)
	w.must(seed.Create)
	return w
}

// try runs an edit against the fleet without keeping it.
func (w *world) try(edit func(*Tx) error) (Result, error) {
	tx := w.state.Begin()
	if err := edit(tx); err != nil {
		return Result{}, err
	}
	return tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test"})
}

// must runs an edit and keeps it. It compares the State from Finish with the one that a replica computes from the log.
func (w *world) must(edit func(*Tx) error) Result {
	w.t.Helper()
	res, err := w.try(edit)
	require.NoError(w.t, err)
	if len(res.Commit.Changes) > 0 {
		followed, err := w.state.Apply(res.Commit)
		require.NoError(w.t, err)
		require.Equal(w.t, polls(w.t, res.State), polls(w.t, followed))
	}
	w.keep(res)
	return res
}

// keep applies the result of an edit to the fleet.
func (w *world) keep(res Result) {
	if len(res.Commit.Changes) > 0 {
		w.log.commits = append(w.log.commits, res.Commit)
	}
	w.state = res.State
}

// refused runs an edit that must fail with a code, and returns the error.
func (w *world) refused(code Code, edit func(*Tx) error) *Error {
	w.t.Helper()
	before := w.state.Revision()
	_, err := w.try(edit)
	var e *Error
	require.True(w.t, errors.As(err, &e), "%v", err)
	require.Equal(w.t, code, e.Code, "%v", e)
	require.Equal(w.t, before, w.state.Revision())
	return e
}

func create(kind Kind, body string) func(*Tx) error {
	return func(tx *Tx) error { _, err := tx.Create(kind, []byte(body)); return err }
}

func put(kind Kind, id, body string) func(*Tx) error {
	return func(tx *Tx) error { _, err := tx.Put(kind, id, []byte(body)); return err }
}

func patch(kind Kind, id, body string) func(*Tx) error {
	return func(tx *Tx) error { _, err := tx.Patch(kind, id, []byte(body)); return err }
}

func remove(kind Kind, id string, opt DeleteOptions) func(*Tx) error {
	return func(tx *Tx) error { _, err := tx.Delete(kind, id, opt); return err }
}

func assign(cluster string, kind Kind, id, settings string) func(*Tx) error {
	return func(tx *Tx) error { _, err := tx.Assign(cluster, kind, id, []byte(settings)); return err }
}

func both(edits ...func(*Tx) error) func(*Tx) error {
	return func(tx *Tx) error {
		for _, edit := range edits {
			if err := edit(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// poll returns the decoded answer of a cluster without the receipts, which must all be present and correct.
func poll(t require.TestingT, s *State, dns string, r Kind) string {
	body := pollSealed(t, s, dns, r)
	var answer struct{ Inputs []json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	if !strings.Contains(body, `,"receipt":"`) && len(body)+len(answer.Inputs)*receiptBytes > MaxAnswerBytes {
		return body // there was no room
	}
	cluster, _ := s.ByDNS(dns)
	for _, in := range answer.Inputs {
		at := len(in) - receiptBytes - 1
		require.Greater(t, at, 0, "%s", in)
		bare := string(in[:at]) + "}"
		require.Equal(t, fmt.Sprintf(`%s,"receipt":"%s"}`, in[:at], receiptFor(t, bare, cluster.incarnation())), string(in))
		body = strings.Replace(body, string(in), bare, 1)
	}
	return body
}

// receiptFor computes a receipt independently.
func receiptFor(t require.TestingT, input string, incarnation int) string {
	dec := json.NewDecoder(strings.NewReader(input))
	dec.UseNumber()
	var fields map[string]any
	require.NoError(t, dec.Decode(&fields))
	require.NotContains(t, fields, "receipt")
	var canonical bytes.Buffer
	enc := json.NewEncoder(&canonical)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(fields))
	text := bytes.TrimSpace(canonical.Bytes())
	if incarnation > 0 {
		text = fmt.Appendf(text, "\n%d", incarnation)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:16]
}

// pollSealed returns the decoded answer of a cluster as it is served.
func pollSealed(t require.TestingT, s *State, dns string, r Kind) string {
	cluster, ok := s.ByDNS(dns)
	require.True(t, ok, "no cluster %s", dns)
	answer, err := s.Answer(cluster, r)
	require.NoError(t, err)
	body, err := answer.Body()
	require.NoError(t, err)
	require.Len(t, body, answer.Size)
	return string(body)
}

// polls are all answers of a fleet.
func polls(t require.TestingT, s *State) map[string]string {
	out := map[string]string{}
	for dns := range s.byDNS {
		for _, list := range s.kinds.lists {
			out[dns+"/"+list.endpoint] = poll(t, s, dns, list.kind)
		}
	}
	return out
}

func inputsOf(t require.TestingT, s *State, dns string, r Kind) []map[string]any {
	var body struct {
		Inputs []map[string]any `json:"inputs"`
	}
	require.NoError(t, json.Unmarshal([]byte(poll(t, s, dns, r)), &body))
	require.NotNil(t, body.Inputs)
	return body.Inputs
}

func ids(inputs []map[string]any) []string {
	out := []string{}
	for _, in := range inputs {
		out = append(out, in["id"].(string))
	}
	return out
}

const demoDNS = "demo-cluster-01.k8s.example.com"
