package fleet

// direction says whether a revision made changes or took them back.
type direction string

const (
	directionForward direction = "forward" // it made changes
	directionBack    direction = "back"    // it only reverted such revisions
	directionUnknown direction = "unknown" // it did both, or the log does not have it
)

// maxDirectionReads limits the revisions that one revert reads to know what it does; each is read once in a batch.
const maxDirectionReads = 100

// directions are the directions of the revisions that a batch has read.
type directions map[Revision]direction

// of returns the direction of a revision.
func (d directions) of(rev Revision, past History) (direction, error) {
	return d.find(rev, past, len(d)+maxDirectionReads)
}

// find is of with a limit of the revisions that are known afterwards.
func (d directions) find(rev Revision, past History, limit int) (direction, error) {
	if to := d[rev]; to != "" {
		return to, nil
	}
	if len(d) == limit {
		return directionUnknown, nil
	}
	d[rev] = directionUnknown
	commit, err := past.Commit(rev)
	if err != nil {
		return directionUnknown, err
	}
	operations, more, _ := commit.Requested()
	if commit.Revision != rev || more > 0 {
		return directionUnknown, nil
	}
	all := map[direction]bool{}
	for _, op := range operations {
		to := directionForward
		switch op.Op {
		case "override", opApproved:
			continue
		case "restore":
			to = directionUnknown
		case "revert":
			to, err = d.find(Revision(op.Revision), past, limit)
			if err != nil {
				return directionUnknown, err
			}
			to = map[direction]direction{directionForward: directionBack, directionBack: directionForward, directionUnknown: directionUnknown}[to]
		}
		all[to] = true
	}
	switch {
	case all[directionUnknown] || len(all) > 1:
	case all[directionBack]:
		d[rev] = directionBack
	default:
		d[rev] = directionForward
	}
	return d[rev], nil
}
