package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Source means that each artifact is one commit with all of its documents, in the order of the pushes, once, and the newest one is applied.
const Source Rule = "source"

// FollowedSource is the id of the source of the run.
const FollowedSource = "platform"

// FollowedPair are the ids of the two namespaces that each artifact of the source changes.
var FollowedPair = [2]string{"followed-one", "followed-two"}

// ArtifactValue returns the label of both documents in an artifact.
func ArtifactValue(n int) string { return fmt.Sprintf("artifact-%d", n) }

// checkSource checks the commits of the source.
func (j *judge) checkSource() {
	if j.h.Run.Artifacts == 0 {
		return
	}
	last := 0
	for _, c := range j.h.Commits {
		var found [2]int
		for _, ch := range c.Changes {
			for i, id := range FollowedPair {
				if ch.Kind == fleet.KindNamespace && ch.ID == id {
					found[i] = artifactOf(string(ch.After))
				}
			}
		}
		bySource := c.Actor == fleet.SourceActor(FollowedSource)
		switch {
		case found == [2]int{}:
		case !bySource:
			j.violate(Source, "revision %d by %s changes documents of the source", c.Revision, c.Actor)
		case found[0] != found[1]:
			j.violate(Source, "revision %d has artifact %d in one document and %d in the other", c.Revision, found[0], found[1])
		case found[0] <= last:
			j.violate(Source, "revision %d has artifact %d after %d", c.Revision, found[0], last)
		default:
			last = found[0]
		}
	}
	if last != j.h.Run.Artifacts {
		j.violate(Source, "artifact %d is the last in the log, and %d were pushed", last, j.h.Run.Artifacts)
	}
}

// artifactOf returns the number of the artifact in a document; -1: none.
func artifactOf(doc string) int {
	_, after, found := strings.Cut(doc, `"artifact-`)
	digits, _, _ := strings.Cut(after, `"`)
	n, err := strconv.Atoi(digits)
	if !found || err != nil {
		return -1
	}
	return n
}
