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

// maxMatrixColumns and maxLabelKeys are the numbers of listed values and keys of labels: clusters may have ten thousand.
const (
	maxMatrixColumns = 40
	maxLabelKeys     = 50
)

// cellCounts counts clusters by state, in the order of urgency. An array is faster than a map.
type cellCounts [len(urgency)]int

// counts returns the states with clusters.
func (n *cellCounts) counts() api.StatusCounts {
	out := api.StatusCounts{}
	for i, clusters := range n {
		if clusters > 0 {
			out[string(urgency[i])] = clusters
		}
	}
	return out
}

// matrixCell has the clusters of one column that have a component.
type matrixCell struct {
	versions []matrixVersion
}

type matrixVersion struct {
	version, tag        string
	clusters, deviating int
	states              cellCounts
}

// of returns the entry of a version, which it adds if it is new.
func (cell *matrixCell) of(version, tag string) *matrixVersion {
	for i := range cell.versions {
		if v := &cell.versions[i]; v.version == version && v.tag == tag {
			return v
		}
	}
	cell.versions = append(cell.versions, matrixVersion{version: version, tag: tag})
	return &cell.versions[len(cell.versions)-1]
}

func (s *Server) GetComponentMatrix(c echo.Context, p api.GetComponentMatrixParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	docs, err := selectClusters(st.All(fleet.KindCluster), p.Environment, p.Selector)
	if err != nil {
		return err
	}
	if p.Limit == nil {
		p.Limit = new(statusPage)
	}
	rows := response.Page(c, st.All(fleet.KindComponent), p.Limit, p.Offset)
	out := api.ComponentMatrix{Complete: s.tracker.Stats().Complete, Total: len(docs), Columns: []api.MatrixColumn{}, Rows: []api.MatrixRow{}, LabelKeys: labelKeys(docs)}
	columnOf := matrixColumns(&out, docs, p.By, s.cfg.Replica.Rules())
	cells, err := s.matrixCells(c, st, docs, rows, columnOf, len(out.Columns))
	if err != nil {
		return err
	}
	for i, doc := range rows {
		component := doc.Component()
		row := api.MatrixRow{ID: doc.ID, Type: component.Type, ComponentVersion: component.ComponentVersion, OCITag: component.OCITag, Cells: []api.MatrixCell{}}
		for column := range out.Columns {
			if cell := &cells[i*len(out.Columns)+column]; len(cell.versions) > 0 {
				row.Cells = append(row.Cells, cellView(cell, column))
			}
		}
		out.Rows = append(out.Rows, row)
	}
	requestOf(c).job.Leave()
	return response.WriteJSON(c, http.StatusOK, out)
}

// labelKeys returns the first label keys of clusters.
func labelKeys(docs []*fleet.Document) []string {
	found := map[string]bool{}
	for _, doc := range docs {
		for key := range doc.Cluster().Labels {
			found[key] = true
		}
	}
	keys := slices.AppendSeq([]string{}, maps.Keys(found))
	slices.Sort(keys)
	return keys[:min(len(keys), maxLabelKeys)]
}

// columnKey is a value of the label; missing: the cluster lacks it.
type columnKey struct {
	value   string
	missing bool
}

func columnOfCluster(c *api.Cluster, by *string) columnKey {
	if by == nil {
		return columnKey{}
	}
	value, ok := fleet.Label(c, *by)
	return columnKey{value, !ok}
}

// matrixColumns sets the columns of a matrix, environments in promotion order and labels sorted, and returns the column of each cluster by its index; -1: none.
func matrixColumns(out *api.ComponentMatrix, docs []*fleet.Document, by *string, rules fleet.Rules) []int {
	clusters := map[columnKey]int{}
	for _, doc := range docs {
		clusters[columnOfCluster(doc.Cluster(), by)]++
	}
	keys := slices.SortedFunc(maps.Keys(clusters), func(a, b columnKey) int {
		return cmp.Or(cmp.Compare(clusters[b], clusters[a]), cmp.Compare(a.value, b.value))
	})
	out.OtherValues = max(0, len(keys)-maxMatrixColumns)
	keys = keys[:len(keys)-out.OtherValues]
	slices.SortFunc(keys, func(a, b columnKey) int {
		if a.missing != b.missing {
			return cmp.Compare(b.value, a.value) // the missing value is empty, and is last
		}
		if by != nil && *by == "environment" {
			return rules.CompareEnvironments(a.value, b.value)
		}
		return cmp.Compare(a.value, b.value)
	})
	index := map[columnKey]int{}
	for i, key := range keys {
		index[key] = i
		out.Columns = append(out.Columns, api.MatrixColumn{Value: key.value, Missing: key.missing, Clusters: clusters[key]})
	}
	columnOf := make([]int, len(docs))
	for i, doc := range docs {
		column, listed := index[columnOfCluster(doc.Cluster(), by)]
		if !listed {
			column = -1
		}
		columnOf[i] = column
	}
	return columnOf
}

// matrixCells counts the clusters of each component and column, in the order of the components, then of the columns.
func (s *Server) matrixCells(c echo.Context, st *fleet.State, docs, components []*fleet.Document, columnOf []int, columns int) ([]matrixCell, error) {
	rowOf := make(map[string]int, len(components))
	for i, doc := range components {
		rowOf[doc.ID] = i
	}
	type input struct {
		state   clusterstatus.State
		enabled bool
	}
	type position struct {
		id       string
		row      int
		isListed bool
	}
	var positions []position // of the components of the cluster before: most clusters have the same ones in the same order
	var inputs []input       // of the components of one cluster
	list := fleet.KindComponent.Endpoint()
	collect := func(of string, enabled bool, state clusterstatus.State) {
		if of == list {
			inputs = append(inputs, input{state, enabled})
		}
	}
	cells, names := make([]matrixCell, len(components)*columns), clusterstatus.NameCache{}
	for i, doc := range docs {
		if err := requestOf(c).job.Interrupted(); err != nil {
			return nil, err
		}
		if columnOf[i] < 0 {
			continue
		}
		yieldToPolls()
		inputs = inputs[:0]
		q := s.statusQuery(st, doc, names)
		q.EachInput = collect
		status, err := s.evaluate(st, doc, q)
		if err != nil {
			return nil, err
		}
		n := 0
		for component := range st.Components(doc) {
			if n >= len(inputs) {
				break
			}
			in := inputs[n]
			if n == len(positions) {
				positions = append(positions, position{})
			}
			at := &positions[n]
			if n++; at.id != component.ID {
				row, listed := rowOf[component.ID]
				*at = position{component.ID, row, listed}
			}
			if !at.isListed {
				continue
			}
			v := cells[at.row*columns+columnOf[i]].of(component.ComponentVersion, component.OCITag)
			v.clusters++
			if component.Deviates {
				v.deviating++
			}
			state := status.StateOfInput(in.state, in.enabled)
			v.states[urgencyIndex(state)]++
			if in.state == clusterstatus.Failed && state != clusterstatus.Failed { // it has both states, see Status.States
				v.states[urgencyIndex(clusterstatus.Failed)]++
			}
		}
	}
	return cells, nil
}

// cellView returns a cell with its versions, the most frequent first.
func cellView(cell *matrixCell, column int) api.MatrixCell {
	out, all := api.MatrixCell{Column: column, Versions: []api.MatrixVersion{}}, cellCounts{}
	slices.SortFunc(cell.versions, func(a, b matrixVersion) int {
		return cmp.Or(cmp.Compare(b.clusters, a.clusters), cmp.Compare(a.version, b.version), cmp.Compare(a.tag, b.tag))
	})
	for i := range cell.versions {
		v := &cell.versions[i]
		out.Clusters += v.clusters
		for state, n := range v.states {
			all[state] += n
		}
		out.Versions = append(out.Versions, api.MatrixVersion{ComponentVersion: v.version, OCITag: v.tag, Clusters: v.clusters, Deviating: v.deviating, Counts: v.states.counts()})
	}
	out.Counts = all.counts()
	return out
}
