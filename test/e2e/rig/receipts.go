package rig

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Receipt is a request by which a cluster reports that it has applied an input of a list.
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

// recordReceipt records an accepted receipt, and calls the observer before the cluster gets the answer.
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

// HasReceipt reports whether the cluster has sent a receipt and the API has accepted it.
func (g *Gate) HasReceipt(r Receipt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.receipts, r)
}

// RefuseReceipts answers receipts, and nothing else, with 503 until it is called with false; the cluster repeats them.
func (g *Gate) RefuseReceipts(refuse bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuseReceipts = refuse
}

// OnReceipt sets a function that is called with every receipt and the status of the answer, before the cluster gets the answer.
func (g *Gate) OnReceipt(tell func(r Receipt, status int)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onReceipt = tell
}
