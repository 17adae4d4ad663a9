package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
	"github.com/flux-resourceset/flux-resourceset/server/internal/poll"
)

// The limits of a request that renders: half a minute of a processor, and the size of the objects that it holds.
const (
	renderUnits = 300_000_000
	renderBytes = 32 << 20
)

// Render renders the objects of a cluster. It records no poll.
func (s *Server) Render(c echo.Context, _ api.RenderParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	req, err := decodeBody[api.RenderRequest](c)
	if err != nil {
		return err
	}
	cluster, err := st.Find(fleet.KindCluster, req.Cluster)
	if err != nil && strings.Contains(req.Cluster, ".") {
		cluster, err = poll.Cluster(st, req.Cluster)
	}
	if err != nil {
		return err
	}
	sets, err := resourceSets(req.ResourceSets, st)
	if err != nil {
		return err
	}
	inputs := map[string][]resourceset.Input{}
	from := func(list string) ([]resourceset.Input, error) {
		known, ok := inputs[list]
		if !ok {
			known, err = inputsOf(st, cluster, list, nil)
			inputs[list] = known
		}
		return known, err
	}
	out, budget := api.Rendering{ResourceSets: []api.RenderedResourceSet{}}, newRenderBudget(c)
	for _, set := range sets {
		if req.Type != "" && !slices.Contains(set.Sources(), req.Type) {
			continue
		}
		one := api.RenderedResourceSet{Name: set.Metadata.Name, Namespace: set.Metadata.Namespace, Objects: []json.RawMessage{}}
		made, err := set.Render(from, budget)
		if one.Error, err = s.renderProblem(c, err); err != nil {
			return err
		}
		for _, obj := range made {
			one.Objects = append(one.Objects, obj.JSON)
		}
		out.ResourceSets = append(out.ResourceSets, one)
	}
	return s.sendBuffered(c, out)
}

func newRenderBudget(c echo.Context) *resourceset.Budget {
	return &resourceset.Budget{Units: renderUnits, Bytes: renderBytes, Stop: requestOf(c).job.Interrupted}
}

// renderProblem returns the reason why a template fails, or the error of the request.
func (s *Server) renderProblem(c echo.Context, err error) (string, error) {
	switch {
	case err == nil:
		return "", nil
	case requestOf(c).job.Interrupted() != nil:
		return "", requestOf(c).job.Interrupted()
	case errors.Is(err, resourceset.ErrSpent):
		return "", &fleet.Error{Code: fleet.CodeLimitExceeded, Detail: fmt.Sprintf("%.2000s", err)}
	}
	return s.masker.Tokens(fmt.Sprintf("%.5000s", err)), nil
}

// inputsOf returns the inputs of a cluster's list: all, or those with some ids.
func inputsOf(st *fleet.State, cluster *fleet.Document, list string, only map[string]bool) ([]resourceset.Input, error) {
	raw, err := st.Inputs(cluster, list, only)
	if err != nil {
		return nil, err
	}
	inputs := make([]resourceset.Input, len(raw))
	for i := range raw {
		if err := json.Unmarshal(raw[i], &inputs[i]); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// resourceSets returns the ResourceSets in the text of a request, or the shipped ones and those of the resource types of some States;
// of several States with a type, the first one has its template.
func resourceSets(text string, states ...*fleet.State) ([]*resourceset.Set, error) {
	if text != "" {
		sets, err := resourceset.Read(text)
		if err != nil {
			err = fleet.Invalid([]fleet.Problem{{Pointer: "/resource_sets", Detail: fmt.Sprintf("%.5000s", err)}})
		}
		return sets, err
	}
	var objects []resourceset.Object
	for _, kind := range fleet.Definitions() {
		shipped, err := resourceset.ParseObjects(charts.ResourceSet(kind.Endpoint()))
		if err != nil {
			return nil, err
		}
		objects = append(objects, shipped...)
	}
	known := map[string]bool{}
	for _, st := range states {
		for _, doc := range st.All(fleet.KindResourceType) {
			var of api.ResourceType
			if err := json.Unmarshal(doc.Body, &of); err != nil {
				return nil, err
			}
			if of.Template == "" || known[doc.ID] {
				continue
			}
			known[doc.ID] = true
			made, err := resourceset.ForType(charts.ResourceSet(fleet.KindNamespace.Endpoint()), fleet.KindNamespace.Endpoint(), doc.ID, charts.Receipt+of.Template)
			if err != nil {
				return nil, err
			}
			objects = append(objects, made...)
		}
	}
	return resourceset.ReadObjects(objects)
}
