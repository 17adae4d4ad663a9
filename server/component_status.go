package server

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// GetPlatformComponentStatus answers with the clusters of a component by state, and by version.
func (s *Server) GetPlatformComponentStatus(c echo.Context, id string, _ api.GetPlatformComponentStatusParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	if _, err := st.Find(fleet.KindComponent, id); err != nil {
		return err
	}
	type version struct{ version, tag string }
	found, names := map[version]*api.VersionStatus{}, clusterstatus.NameCache{}
	out := api.ComponentStatus{ID: id, Complete: s.tracker.Stats().Complete, Counts: api.StatusCounts{}, Versions: []api.VersionStatus{}}
	job := requestOf(c).job
	for _, doc := range st.All(fleet.KindCluster) {
		if err := job.Interrupted(); err != nil {
			return err
		}
		runs, ok := st.Running(doc, id)
		if !ok {
			continue
		}
		yieldToPolls()
		known, err := s.statusOf(st, doc, componentInput(id), false, names)
		if err != nil {
			return err
		}
		key := version{runs.ComponentVersion, runs.OCITag}
		v := found[key]
		if v == nil {
			v = &api.VersionStatus{ComponentVersion: runs.ComponentVersion, OCITag: runs.OCITag, Counts: api.StatusCounts{}}
			found[key] = v
		}
		out.Clusters++
		v.Clusters++
		countStates(out.Counts, &known)
		countStates(v.Counts, &known)
	}
	for _, v := range slices.SortedFunc(maps.Values(found), func(a, b *api.VersionStatus) int {
		return cmp.Or(cmp.Compare(b.Clusters, a.Clusters), cmp.Compare(a.ComponentVersion, b.ComponentVersion), cmp.Compare(a.OCITag, b.OCITag))
	}) {
		out.Versions = append(out.Versions, *v)
	}
	job.Leave()
	return response.WriteJSON(c, http.StatusOK, out)
}
