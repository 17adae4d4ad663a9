package rig

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Receipt is what a cluster says by polling: that it has applied this input of this list.
type Receipt struct {
	List, ID, Input string
}

// receiptOf reads a receipt from the address that is polled; not ok when it is that of something else.
func receiptOf(address *url.URL) (r Receipt, ok bool) {
	_, rest, ok := strings.Cut(address.Path, "/receipts/")
	if !ok {
		return r, false
	}
	r.List, r.ID, ok = strings.Cut(rest, "/")
	r.Input = address.Query().Get("input")
	return r, ok && r.Input != ""
}

// recordReceipt remembers a receipt that the API has taken, and tells whoever wants to know while the cluster waits.
func (g *Gate) recordReceipt(r Receipt, status int) {
	g.mu.Lock()
	if status == http.StatusOK {
		g.receipts = append(g.receipts, r)
	}
	tell := g.onReceipt
	g.mu.Unlock()
	if tell != nil {
		tell(r, status)
	}
}

// HasReceipt tells whether the cluster has ever sent this one, and the API has taken it.
func (g *Gate) HasReceipt(r Receipt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.receipts, r)
}

// OnReceipt has tell called with every receipt and what the API answers to it, before the cluster has that answer.
func (g *Gate) OnReceipt(tell func(r Receipt, status int)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onReceipt = tell
}
