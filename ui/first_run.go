package ui

// firstRun has the commands that connect the first cluster.
type firstRun struct {
	URL     string // of this service
	Created bool   // there is a cluster, which has not polled yet
	MayAdd  bool   // the page offers the form that adds a cluster
}

func (req *pageRequest) firstRun(created bool) *firstRun {
	return &firstRun{URL: req.apiURL(), Created: created, MayAdd: req.mayAddClusters()}
}

// apiURL returns the URL of the API as this browser reaches it.
func (req *pageRequest) apiURL() string {
	scheme := "http"
	if req.r.TLS != nil || req.r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + req.r.Host + req.page.cfg.BasePath
}
