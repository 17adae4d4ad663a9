package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// pager links to the previous and next page of a list.
type pager struct {
	First, Last, All int
	Previous, Next   string // empty: none
}

// makePager returns the pager of a list: size rows a page, shown rows from offset on this page, all rows in total.
func makePager(path string, query url.Values, size, offset, shown, all int) pager {
	out := pager{First: min(offset+1, all), Last: offset + shown, All: all}
	to := func(offset int) string {
		query.Set("offset", strconv.Itoa(offset))
		return path + "?" + query.Encode()
	}
	if offset > 0 {
		out.Previous = to(max(0, offset-size))
	}
	if offset+shown < all {
		out.Next = to(offset + shown)
	}
	return out
}

// totalOf returns the length of a list before paging. The counts of states add up to more, since a cluster may be in two states.
func totalOf(rsp *http.Response) (int, error) {
	total, err := strconv.Atoi(rsp.Header.Get("X-Total-Count"))
	if err != nil {
		return 0, fmt.Errorf("the length of a list: %w", err)
	}
	return total, nil
}
