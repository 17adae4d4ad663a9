package ui

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// tableRows is the number of documents that the page of definitions shows of a kind with columns; the kind's own page has all.
const tableRows = 8

// documentCell is a value in a table: a time or a text.
type documentCell struct {
	Title string // of its column
	Time  time.Time
	Text  string
}

func (c documentCell) empty() bool { return c.Time.IsZero() && c.Text == "" }

// documentRow is a document in a table.
type documentRow struct {
	namedID

	Link  string
	Cells []documentCell
}

// documentTable is a table of documents of one kind.
type documentTable struct {
	Columns []sortLink
	Rows    []documentRow
}

// sortLink is the title of a column, which sorts by it.
type sortLink struct {
	Title, Link string
	Sorted      string // ascending or descending; empty: by another column
}

// documents returns all documents of the kind as rows of its columns, in the order of the first time in them, the soonest first, or of the API.
func (k kind) documents(req *pageRequest) (rows []documentRow, err error) {
	var all []map[string]any
	if err := k.readAll(req, &all); err != nil {
		return nil, err
	}
	for _, doc := range all {
		var row documentRow
		row.ID, _ = doc["id"].(string)
		row.Name, _ = doc["name"].(string)
		row.Link = k.page(row.ID)
		for _, c := range k.columns {
			row.Cells = append(row.Cells, makeCell(c.Title, doc[c.Field]))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// makeCell returns a value as people read it.
func makeCell(title string, value any) documentCell {
	if text, ok := value.(string); ok {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return documentCell{Title: title, Time: at}
		}
	}
	return documentCell{Title: title, Text: shortText(value)}
}

// shortText returns a JSON value in one line, without punctuation that a reader does not need.
func shortText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "yes"
		}
		return ""
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = shortText(one)
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text := shortText(v[name]); text != "" {
				parts = append(parts, name+" "+text)
			}
		}
		return strings.Join(parts, " ")
	default:
		return fmt.Sprint(v)
	}
}

// contains reports whether one of the row's texts contains the search.
func (r documentRow) contains(search string) bool {
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), search) }
	return has(r.Text()) || slices.ContainsFunc(r.Cells, func(c documentCell) bool { return has(c.Text) })
}

// sortRows sorts by a column, by the name for a negative one: the soonest time, the lowest text first; empty cells come last in both directions.
func sortRows(rows []documentRow, column int, descending bool) {
	slices.SortStableFunc(rows, func(a, b documentRow) int {
		order := strings.Compare(a.Text(), b.Text())
		if column >= 0 {
			x, y := a.Cells[column], b.Cells[column]
			if x.empty() != y.empty() {
				if x.empty() {
					return 1
				}
				return -1
			}
			order = cmp.Or(x.Time.Compare(y.Time), strings.Compare(x.Text, y.Text))
		}
		if descending {
			return -order
		}
		return order
	})
}

// table returns the rows sorted by the field of a column, or as the kind is at first, with links that keep the other parameters.
func (k kind) table(rows []documentRow, sort string, kept url.Values) documentTable {
	by, descending := strings.CutPrefix(cmp.Or(sort, k.sortedBy, "id"), "-")
	at := slices.IndexFunc(k.columns, func(c column) bool { return c.Field == by })
	sortRows(rows, at, descending)
	return documentTable{k.sortLinks(at, descending, kept), rows}
}

type documentListView struct {
	frame
	List, Query, Sort string
	Soon              string             // the query parameter of the expiry; empty: all documents
	Expiry            []choice           // of tokens: all, and those that expire soon
	New               string             // the address of the form that creates one; empty: none
	Rules             []api.EnforcedRule // of the configuration, and active freezes, beside policies
	Table             documentTable
	Pages             pager
	All               int
}

// showDocuments lists the documents of a kind with columns: with a search, sorted by a column, in pages.
func showDocuments(req *pageRequest) error {
	list := req.r.PathValue("list")
	k := kindOfList(list)
	if len(k.columns) == 0 {
		return errNotFound
	}
	if k.admin && !req.may("admin") {
		return errNotAdmin
	}
	view := documentListView{List: list, Query: req.query("q"), Sort: req.query("sort")}
	if k.name == kindToken {
		if view.Soon = req.query("expires"); view.Soon != "" {
			view.Soon, k.query = "soon", fmt.Sprintf("%s&expires_within_days=%d", k.query, expirySoon)
		}
		view.Expiry = []choice{{"All", link("definitions", list), view.Soon == ""}, {fmt.Sprintf("Expire within %d days", expirySoon), expiringTokens, view.Soon != ""}}
	}
	rows, err := k.documents(req)
	if err != nil {
		return err
	}
	view.All = len(rows)
	if search := strings.ToLower(strings.TrimSpace(view.Query)); search != "" {
		rows = slices.DeleteFunc(rows, func(r documentRow) bool { return !r.contains(search) })
	}
	if k.name == client.KindFreeze {
		view.New = req.newFreezeLink()
	}
	if k.list == policyList {
		if view.Rules, err = req.otherRules(); err != nil {
			return err
		}
	}
	query := parameters(map[string]string{"q": view.Query, "expires": view.Soon})
	view.Table = k.table(rows, view.Sort, query)
	if view.Sort != "" {
		query.Set("sort", view.Sort)
	}
	offset := min(req.offset(), len(rows))
	view.Table.Rows = rows[offset:min(offset+rowsPerPage, len(rows))]
	view.Pages = makePager(link("definitions", list), query, rowsPerPage, offset, len(view.Table.Rows), len(rows))
	return req.show("documents", k.title, "definitions", &view)
}

// otherRules returns the rules that may refuse a change, besides policies.
func (req *pageRequest) otherRules() ([]api.EnforcedRule, error) {
	check, err := req.fleet.CheckAccessWithResponse(req.r.Context(), nil, api.AccessCheckRequest{Right: "read"})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(check.JSON200.Rules, func(r api.EnforcedRule) bool { return r.Kind == client.KindPolicy }), nil
}

// expiringTokens is the list of the tokens that expire soon.
var expiringTokens = link("definitions", "tokens") + "?expires=soon"

// countExpiringTokens returns the number of tokens that expire soon.
func (req *pageRequest) countExpiringTokens() (int, error) {
	list, err := req.fleet.ListTokensWithResponse(req.r.Context(), &api.ListTokensParams{Limit: new(1), ExpiresWithinDays: new(expirySoon)})
	if err != nil {
		return 0, err
	}
	return totalOf(list.HTTPResponse)
}

// sortLinks returns the titles of the columns, the name first, with links that sort by them or turn the order around.
func (k kind) sortLinks(sorted int, descending bool, kept url.Values) (links []sortLink) {
	for i, c := range append([]column{{"Name", "id"}}, k.columns...) {
		to, out := c.Field, sortLink{Title: c.Title}
		if i-1 == sorted {
			if out.Sorted = "descending"; !descending {
				out.Sorted, to = "ascending", "-"+to
			}
		}
		query := maps.Clone(kept)
		query.Set("sort", to)
		out.Link = link("definitions", k.list) + "?" + query.Encode()
		links = append(links, out)
	}
	return links
}
