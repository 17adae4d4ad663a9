package clusterstatus

// HasFailure reports whether a cluster sent an event of a failure that matches, also of one that is over or about an earlier input. It
// is much cheaper than an evaluation, so a search need not evaluate every cluster.
func (t *Tracker) HasFailure(cluster string, matches func(*Event) bool) bool {
	return t.lookup(cluster).hasFailure(matches) || t.lookup(WithSharedToken(cluster)).hasFailure(matches)
}

func (c *cluster) hasFailure(matches func(*Event) bool) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.isFailure() && matches(e) {
			return true
		}
	}
	return false
}
