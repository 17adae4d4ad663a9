package fleet

import "fmt"

// takeoverReason returns the reason why a change must be confirmed if another document answers a name from now on: the
// cluster that polls by this name is the same as before, and Flux uninstalls there whatever the new document lacks. It
// returns "" if no object is uninstalled.
func (r Result) takeoverReason(a affected, removed []installation) string {
	if len(removed) == 0 || a.after == nil || a.before != nil && a.before.id == a.after.id {
		return ""
	}
	return fmt.Sprintf("cluster %q takes over the name %q, and Flux would uninstall %s on the cluster that polls by it", a.after.id, a.name, plural(len(removed), "thing"))
}

// hiddenRemovals returns the ids of a list's inputs that a cluster loses and that the State before the change does not
// contain: installations under a name that was not answered, or retained ones of a missing resource type.
func (l removals) hiddenRemovals(a affected, kind Kind, base *State) []string {
	if a.before != nil && (base.kinds.byKind[kind] != nil || len(a.kept) == 0) {
		return nil
	}
	var ids []string
	for _, i := range l.byName[a.name] {
		if i.Kind == kind {
			ids = append(ids, i.ID)
		}
	}
	return ids
}
