package server_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every write accepts the last revision that its sender has seen: a process that is behind refuses it.
func TestWritesHonorMinRevision(t *testing.T) {
	t.Parallel()
	a := setup(t)
	b := a.another()
	a.create("/namespaces", `{"id":"seen"}`)
	writes := [][3]string{
		{"POST", "/namespaces", `{"id":"new"}`},
		{"PUT", demoCluster, `{"environment":"qa"}`},
		{"PATCH", demoCluster, `{"environment":"dev"}`},
		{"PUT", demoCluster + "/namespaces/seen", `{}`},
		{"DELETE", demoCluster + "/namespaces/seen", ""},
		{"PATCH", demoCluster + "/patches/podinfo?field_manager=ci", `{"x":"1"}`},
		{"POST", "/plan", `{"operations":[{"op":"delete","kind":"namespace","id":"seen"}]}`},
		{"POST", "/render", `{"cluster":"demo-cluster-01"}`},
		{"POST", "/batch", `{"operations":[{"op":"delete","kind":"namespace","id":"seen"}]}`},
		{"POST", "/revisions/2/restore", ""},
		{"POST", "/tokens", `{"name":"x","role":"read"}`},
	}
	send := func(w *world, write [3]string, revision int) *answer {
		kind := "application/json"
		if write[0] == http.MethodPatch {
			kind = mergePatchType
		}
		return w.do(write[0], write[1], write[2], "Content-Type", kind, "X-Fleet-Min-Revision", strconv.Itoa(revision))
	}
	before := a.head()
	t.Run("not there", func(t *testing.T) {
		for _, write := range writes {
			t.Run(write[0]+" "+write[1], func(t *testing.T) {
				t.Parallel()
				got := send(b, write, a.revision()+1000).problem(503, "unknown_revision")
				require.LessOrEqual(t, revisionOf(got), a.revision(), "it says what is there")
			})
		}
	})
	require.Equal(t, before, a.head())
	for _, write := range writes {
		got := send(b, write, a.revision()) // it queries the store instead of waiting for a notification
		require.Equal(t, 2, got.status/100, "%s: %s", write, got.body)
		a, b = b, a
	}
	send(b, writes[0], -1).problem(400, "validation_error")
}
