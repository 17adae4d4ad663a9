package ui

import (
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

const (
	matrixPerPage = 100 // components
	maxVersions   = 4   // in a cell of the matrix
	byEnvironment = "environment"
)

type matrixView struct {
	frame
	By, Selector string
	Keys         []filterOption // what the columns may be
	Complete     bool
	Columns      []matrixColumn
	OtherValues  int
	Rows         []matrixRow
	Pages        pager
	WallLink     string
}

// matrixColumn is the column of an environment or a value of a label.
type matrixColumn struct {
	api.MatrixColumn

	Link string
}

type matrixRow struct {
	ID    string
	Cells []matrixCell // one for each column
}

// matrixCell has the clusters of a column that have a component; none if Clusters is 0.
type matrixCell struct {
	Link, FailedLink string // to exactly its clusters, and to those that fail
	Clusters, Failed int
	Share            int // of clusters that confirmed their desired version, in percent
	Versions         []versionCell
	More             int // versions
}

// showMatrix shows the desired versions of each component in each environment, or for each value of a label.
func showMatrix(req *pageRequest) error {
	by, selector, offset := req.query("by"), req.query("selector"), req.offset()
	if by == "" {
		by = byEnvironment
	}
	status, err := req.fleet.GetComponentMatrixWithResponse(req.r.Context(), &api.GetComponentMatrixParams{By: &by, Selector: optional(selector), Limit: new(matrixPerPage), Offset: &offset})
	if err != nil {
		return err
	}
	matrix := *status.JSON200
	view := matrixView{By: by, Selector: selector, Complete: matrix.Complete, OtherValues: matrix.OtherValues}
	for _, column := range matrix.Columns {
		view.Columns = append(view.Columns, matrixColumn{column, columnFilter(by, selector, column).page()})
	}
	for _, row := range matrix.Rows {
		view.Rows = append(view.Rows, makeMatrixRow(row, by, selector, matrix.Columns))
	}
	components, err := totalOf(status.HTTPResponse)
	if err != nil {
		return err
	}
	columnsBy := func(by, wall string) string {
		return address(prefix+"/matrix", map[string]string{"by": by, "selector": selector, "wall": wall})
	}
	for _, key := range append([]string{byEnvironment}, matrix.LabelKeys...) {
		view.Keys = append(view.Keys, filterOption{Label: key, Link: columnsBy(key, ""), On: key == by})
	}
	view.WallLink = columnsBy(by, "1")
	view.Pages = makePager(prefix+"/matrix", req.r.URL.Query(), matrixPerPage, offset, len(view.Rows), components)
	return req.show("matrix", "Matrix", "matrix", &view)
}

// columnFilter selects the clusters of a column.
func columnFilter(by, selector string, column api.MatrixColumn) filter {
	f := filter{Selector: selector}
	if by == byEnvironment {
		f.Environment = column.Value
		return f
	}
	term := by + "=" + column.Value
	if column.Missing {
		term = "!" + by
	}
	f.Selector = andSelector(selector, term)
	return f
}

func makeMatrixRow(row api.MatrixRow, by, selector string, columns []api.MatrixColumn) matrixRow {
	out := matrixRow{ID: row.ID, Cells: make([]matrixCell, len(columns))}
	for _, cell := range row.Cells {
		f := columnFilter(by, selector, columns[cell.Column])
		f.Component = row.ID
		one := matrixCell{Link: f.page(), Clusters: cell.Clusters, Share: 100 * cell.Counts["confirmed"] / max(1, cell.Clusters), Failed: cell.Counts["failed"]}
		failed := f
		failed.State = "failed"
		one.FailedLink = failed.page()
		one.Versions = versionCells(cell.Versions, f, row.ComponentVersion, row.OCITag)
		one.More = max(0, len(one.Versions)-maxVersions)
		one.Versions = one.Versions[:len(one.Versions)-one.More]
		out.Cells[cell.Column] = one
	}
	return out
}

// versionCells returns the versions of a component on the clusters of a filter. Versions that differ from the catalog's are pinned.
func versionCells(versions []api.MatrixVersion, f filter, catalogVersion, catalogTag string) (out []versionCell) {
	tags := map[string]int{} // a version with several tags is shown with the tag
	for _, one := range versions {
		tags[one.ComponentVersion]++
	}
	for _, one := range versions {
		f.Version, f.Tag = one.ComponentVersion, one.OCITag
		cell := versionCell{
			Version: versionText(one.ComponentVersion, one.OCITag), Clusters: one.Clusters, Confirmed: one.Counts["confirmed"], Deviating: one.Deviating, Link: f.page(),
			Pinned: one.ComponentVersion != catalogVersion || one.OCITag != catalogTag,
		}
		if tags[one.ComponentVersion] > 1 && cell.Version != one.OCITag {
			cell.Tag = one.OCITag
		}
		out = append(out, cell)
	}
	return out
}

// desiredVersions returns the versions of a component on all clusters.
func desiredVersions(c api.PlatformComponent, status api.ComponentStatus) []versionCell {
	versions := make([]api.MatrixVersion, len(status.Versions))
	for i, v := range status.Versions {
		versions[i] = api.MatrixVersion{ComponentVersion: v.ComponentVersion, OCITag: v.OCITag, Clusters: v.Clusters, Counts: v.Counts}
	}
	return versionCells(versions, filter{Component: c.ID}, c.ComponentVersion, c.OCITag)
}

// versionCell is a desired version of a component, with the numbers of clusters.
type versionCell struct {
	Version, Tag, Link  string
	Clusters, Confirmed int
	Pinned              bool // differs from the catalog's version
	Deviating           int  // clusters that set it themselves, and differ from their layers or the catalog
}
