package conn

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// ReadList reads all pages of a list, up to limit documents (0: all), and notes when there are more. size is the page size; 0: the
// server's.
func (s *Session) ReadList(limit, size int, page func(e ...Edit) (*http.Response, error)) ([]json.RawMessage, error) {
	docs, more, err := ReadPages(limit, size, page)
	if more != "" {
		s.Note("%s", more)
	}
	return docs, err
}

// ReadPages reads a list; more is the note about documents beyond the limit.
func ReadPages(limit, size int, page func(e ...Edit) (*http.Response, error)) (docs []json.RawMessage, more string, err error) {
	docs = []json.RawMessage{}
	var edits []Edit
	if limit > 0 && (size == 0 || limit < size) {
		size = limit
	}
	if size > 0 {
		edits = []Edit{Query(url.Values{"limit": {strconv.Itoa(min(size, MaxPage))}})}
	}
	for {
		a, err := Receive(page(edits...))
		if err != nil {
			return nil, "", err
		}
		var next []json.RawMessage
		if err := a.Decode(&next); err != nil {
			return nil, "", err
		}
		docs = append(docs, next...)
		switch {
		case limit > 0 && len(docs) >= limit:
			if a.Total > limit {
				more = fmt.Sprintf("Showing %d of %d.", limit, a.Total)
			} else if a.Next != nil || len(docs) > limit {
				more = fmt.Sprintf("Showing the first %d; there are more.", limit)
			}
			return docs[:limit], more, nil
		case a.Next == nil: // an empty page may have a next one
			return docs, "", nil
		}
		edits = []Edit{Query(a.Next)}
	}
}

// MaxPage is the largest page that the server allows.
const MaxPage = 10000
