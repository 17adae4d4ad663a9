package ui

// firstRun has the commands that connect the first cluster.
type firstRun struct {
	URL     string // of this service
	Created bool   // there is a cluster, which has not polled yet
}

func (req *pageRequest) firstRun(created bool) *firstRun {
	scheme := "http"
	if req.r.TLS != nil || req.r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return &firstRun{URL: scheme + "://" + req.r.Host + req.page.cfg.BasePath, Created: created}
}
