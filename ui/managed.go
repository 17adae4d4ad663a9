package ui

import (
	"net/http"
	"net/url"
)

// managed is the source that manages a document, and the document's file there. The zero value: none does.
type managed struct {
	Source, File, Link string // Link is empty unless the visitor may read sources
	Drifted            bool
}

// managedBy returns the source that the answer with a document names.
func (req *pageRequest) managedBy(answer *http.Response) managed {
	by, err := url.ParseQuery(answer.Header.Get("X-Fleet-Managed-By"))
	if err != nil {
		return managed{}
	}
	out := managed{Source: by.Get("source"), File: by.Get("file"), Drifted: by.Get("drifted") != ""}
	if out.Source != "" && req.may("admin") {
		out.Link = link("sources")
	}
	return out
}
