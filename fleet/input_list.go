package fleet

// inputList is a list of a cluster, in its order and by id.
type inputList struct {
	list []input
	byID map[string]any
}

// inputsByID returns the inputs of a cluster's list in a State, or those in look only.
func inputsByID(s *State, d *Effective, list *descriptor, look map[string]bool) (inputList, error) {
	out := inputList{byID: map[string]any{}}
	// The cluster's list as that State defines it.
	if list = s.kinds.byKind[list.kind]; d == nil || list == nil {
		return out, nil
	}
	var err error
	if out.list, _, err = s.resolveInputs(d, list, look); err != nil {
		return out, err
	}
	for _, in := range out.list {
		out.byID[in.id] = in.value
	}
	return out, nil
}

// reordered reports whether the ids in both lists have another order.
func reordered(before, after []string) bool {
	place := make(map[string]int, len(after))
	for i, id := range after {
		place[id] = i
	}
	last := -1
	for _, id := range before {
		if at, stays := place[id]; stays {
			if at < last {
				return true
			}
			last = at
		}
	}
	return false
}
