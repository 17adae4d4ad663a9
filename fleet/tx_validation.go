package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/parallel"
)

// txValidation collects the results of validating a whole commit.
type txValidation struct {
	base, next   *State
	layerChanges []layerChange // clusters that layers change
	// servedChanges are the clusters that are served another configuration, through layers or pins.
	servedChanges []layerChange
	problems      []Problem
	limits        []Problem
	conflicts     []Problem // about objects of the next State
	warnings      []string
	stored        int             // number of problems that existed before
	tooLarge      atomic.Int32    // number of clusters whose answers become too large
	wrong         atomic.Int32    // number of new problems
	warned        map[string]bool // the content of warnings: there may be one for each of 10,000 clusters
	work          work
	recalled      map[docKey]*Document
	valid         validPatches // in the next State
}

// checkResult holds the problems of a document in the next State and in the base; zero: it was not checked.
type checkResult struct{ now, was *checker }

// inCluster moves the problems of a cluster outside the request to the request as a whole.
func inCluster(c *checker, id string) *checker {
	for i, p := range c.problems {
		c.problems[i] = Problem{Pointer: "", Detail: fmt.Sprintf("cluster %q: %s", id, p.at(strings.TrimPrefix(p.Pointer, "/")))}
	}
	for i, p := range c.limits {
		c.limits[i].Pointer = ""
		c.limits[i].Detail = p.Detail
	}
	return c
}

// andLike adds to the problems of a cluster the number of other clusters that have them too.
func andLike(c *checker, n int) *checker {
	if n == 0 {
		return c
	}
	for i := range c.problems {
		c.problems[i].Detail += fmt.Sprintf(" (and on %s like it)", plural(n, "cluster"))
	}
	return c
}

// changesOf converts edits of a State to changes of the log.
func changesOf(base *State, edits []edit) []Change {
	changes := make([]Change, len(edits))
	for i, e := range edits {
		changes[i] = Change{Kind: e.kind, ID: e.id}
		if before := base.docs[e.kind][e.id]; before != nil {
			changes[i].Before = before.Body
		}
		if e.doc != nil {
			changes[i].After = e.doc.Body
		}
	}
	return changes
}

// warn adds a warning, once.
func (v *txValidation) warn(w string) {
	if v.warned == nil {
		v.warned = map[string]bool{}
	}
	if !v.warned[w] {
		v.warned[w] = true
		v.warnings = append(v.warnings, w)
	}
}

// add adds the problems of a check of the next State, without those that the base has already.
func (v *txValidation) add(now, before *checker) {
	if len(v.problems) >= maxAllProblems {
		return // the commit is refused already
	}
	v.problems = append(v.problems, v.newProblems(now.problems, before.problems)...)
	v.limits = append(v.limits, v.newProblems(now.limits, before.limits)...)
	for _, w := range now.warnings {
		if !before.warned[w] {
			v.warn(w)
		}
	}
}

// newProblems returns the problems that did not exist before, and counts and warns of the others.
func (v *txValidation) newProblems(now, before []Problem) []Problem {
	var out []Problem
	for _, p := range now {
		if slices.ContainsFunc(before, p.noWorseThan) {
			v.stored++
			v.warn("stored before and still wrong: " + p.Detail)
			continue
		}
		out = append(out, p)
	}
	return out
}

// noWorseThan reports whether the problem existed before: the same one in the same field, or a size that has not grown.
func (p Problem) noWorseThan(before Problem) bool {
	if indices.ReplaceAllString(p.Pointer, "/*") != indices.ReplaceAllString(before.Pointer, "/*") {
		return false
	}
	return p.Detail == before.Detail || p.size > 0 && p.size <= before.size
}

var indices = regexp.MustCompile(`/[0-9]+`)

// checkEach checks many documents concurrently, until there are enough problems.
func (v *txValidation) checkEach(n int, look func(i int) checkResult) []checkResult {
	found := make([]checkResult, n)
	parallel.Each(n, func(i int) {
		if v.done() {
			return
		}
		if found[i] = look(i); found[i].now != nil {
			v.countNew(found[i])
		}
	})
	return found
}

// done reports whether checking stops: a change may make thousands of answers too large, and each must be encoded to find
// out.
func (v *txValidation) done() bool {
	return v.work.stopped() != nil || v.tooLarge.Load() >= maxProblems || v.wrong.Load() >= maxAllProblems
}

// countNew counts new problems, to stop when there are enough.
func (v *txValidation) countNew(f checkResult) {
	if len(f.now.limits) > 0 && len(f.was.limits) == 0 {
		v.tooLarge.Add(1)
	}
	if n := len(f.now.problems) - len(f.was.problems); n > 0 {
		v.wrong.Add(int32(n))
	}
}
