package ui

import (
	"regexp"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// changesPerPage is the number of revisions in a page of the list, maxChanges where many are of the same change.
const (
	changesPerPage = 40
	maxChanges     = 200
)

// minRun is the number of consecutive revisions with the same change that are shown as one row.
const minRun = 3

// changeRun is a row of the list of changes: consecutive revisions with the same change, the newest first.
type changeRun struct {
	Newest    changeRow
	Revisions []changeRow // empty: Newest is the only one
	Oldest    int64
	First     time.Time // of the oldest
}

var digits = regexp.MustCompile(`[0-9]+`)

// cause is equal for revisions with the same change: by the same person or token, with the same summary and reason but for numbers, such as
// those of versions, and for the names of clusters. Empty: the revision is shown by itself.
func (r changeRow) cause() string {
	if r.UndoneBy > 0 {
		return ""
	}
	text := r.Summary + "\x00" + r.Reason
	for _, doc := range r.Changes {
		if doc.Kind == client.KindCluster {
			text = strings.ReplaceAll(text, "/"+doc.ID, "/*")
		}
	}
	return r.By() + "\x00" + r.Actor + "\x00" + digits.ReplaceAllString(text, "#")
}

// changeRuns groups consecutive revisions of a day.
func changeRuns(rows []changeRow) (runs []changeRun) {
	for begin := 0; begin < len(rows); {
		end, cause := begin+1, rows[begin].cause()
		for cause != "" && end < len(rows) && rows[end].cause() == cause {
			end++
		}
		if end-begin < minRun {
			end = begin + 1
		}
		run := changeRun{Newest: rows[begin], Oldest: rows[end-1].Revision, First: rows[end-1].At}
		if end-begin > 1 {
			run.Revisions = rows[begin:end]
		}
		runs, begin = append(runs, run), end
	}
	return runs
}

// setChangedAgain sets the revision that changed all documents of each revision again, from all later revisions.
func setChangedAgain(rows []changeRow) {
	later := map[api.ChangeRef]int64{}
	for i := range rows {
		row := &rows[i]
		complete := len(row.Changes) == row.ChangeCount
		for _, doc := range row.Changes {
			doc.Action = ""
			next, changed := later[doc]
			complete = complete && changed
			row.ChangedAgain = max(row.ChangedAgain, next)
			later[doc] = row.Revision
		}
		if !complete {
			row.ChangedAgain = 0
		}
	}
}

// day holds the revisions of one day in UTC.
type day struct {
	Date    string
	Changes []changeRun
}

// days groups revisions by day in UTC, and those of a day by change.
func days(rows []changeRow) (out []day) {
	date := func(row changeRow) string { return row.At.UTC().Format("Monday, 2 January 2006 (UTC)") }
	for begin := 0; begin < len(rows); {
		end := begin + 1
		for end < len(rows) && date(rows[end]) == date(rows[begin]) {
			end++
		}
		out, begin = append(out, day{date(rows[begin]), changeRuns(rows[begin:end])}), end
	}
	return out
}

// readChanges reads a page of the list of changes: more revisions where many are of the same change, then without the numbers of clusters.
// A number that was not counted before takes a comparison of all clusters, so an open page requests it: see changesView.Count.
func (req *pageRequest) readChanges(p api.ListRevisionsParams) (rows []changeRow, next string, err error) {
	p.Limit, p.Clusters, p.Counted = new(changesPerPage), new(true), new(!isRefresh(req.r) && req.query("count") == "")
	for {
		var more []changeRow
		if more, next, err = req.changes(&p); err != nil {
			return nil, "", err
		}
		rows = append(rows, more...)
		shown := 0
		for _, d := range days(rows) {
			shown += len(d.Changes)
		}
		if next == "" || len(more) == 0 || shown >= changesPerPage/2 || len(rows) >= maxChanges {
			return rows, next, nil
		}
		p.Cursor, p.Clusters = &next, nil
	}
}
