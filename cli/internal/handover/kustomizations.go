package handover

import (
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
)

// kustomizations collects the Kustomizations that apply what is handed over, from the root down.
func (p *planner) kustomizations() error {
	for _, k := range p.dump.Kind(kustomizeGroup, "Kustomization") {
		for _, ref := range k.Inventory() {
			if k.At("spec", "kubeConfig") == nil { // otherwise they are on another cluster
				p.appliers[ref] = append(p.appliers[ref], k)
			}
		}
	}
	for _, r := range p.Releases {
		if err := p.parents(r.Object); err != nil {
			return err
		}
	}
	for _, ref := range sorted(p.named) {
		if k, _ := p.dump.Find(ref); k.Kind == "Kustomization" {
			if err := p.suspend(k); err != nil {
				return err
			}
		}
	}
	for i := range slices.Backward(p.Kustomizations) { // children first
		k := &p.Kustomizations[i]
		k.Keeps = p.keeps(k.Object)
		k.Delete = k.Keeps == "" || p.named[k.Ref]
		if !k.Delete {
			p.keep = append(p.keep, k.Ref)
		}
	}
	for _, r := range p.Releases {
		p.inGit(r.Object)
	}
	for _, k := range p.Kustomizations {
		if k.Delete {
			p.inGit(k.Object)
		}
		for _, ref := range k.Inventory() {
			switch _, served := p.served[ref]; {
			case served && !k.Delete:
				p.Shared = append(p.Shared, Shared{ref, k.Ref})
			case !served && k.Delete && ref.Group == sourceGroup:
				p.Sources = append(p.Sources, ref.String())
			}
		}
	}
	p.active()
	return nil
}

// dependents warns of objects that stay and depend on one that is deleted.
func (p *planner) dependents() {
	deleted := map[fluxdump.Ref]bool{}
	for _, r := range p.Releases {
		deleted[r.Ref] = true
	}
	for _, k := range p.Kustomizations {
		deleted[k.Ref] = k.Delete
	}
	for _, o := range p.dump.Objects {
		for _, ref := range o.DependsOn() {
			if deleted[ref] && !deleted[o.Ref] {
				p.warn("%s depends on %s, without which Flux does not apply changes of it", o.Ref, ref)
			}
		}
	}
}

// active warns of Kustomizations that stay active and apply objects of the service, and of those that were suspended before.
func (p *planner) active() {
	for _, ref := range sorted(p.served) {
		for _, k := range p.appliers[ref] {
			if !p.suspended[k.Ref] {
				p.warn("%s, which stays active, applies %s too, and deletes it when Git no longer has it. First annotate it with %s/prune: disabled, in Git and in the fleet", k.Ref, ref, kustomizeGroup)
			}
		}
	}
	for _, k := range p.Kustomizations {
		if k.Flag("spec", "suspend") && !k.Delete {
			p.warn("%s is suspended in the dump, and step 7 prints how to resume it", k.Ref)
		}
	}
}

// parents adds the Kustomizations above an object: that of its labels and all that have it in their inventory. One that is not in the
// dump would stay active and create the object again.
func (p *planner) parents(o fluxdump.Object) error {
	if ref, applied := o.Owner(); applied {
		parent, ok := p.dump.Find(ref)
		if !ok {
			return args.Errorf("%s has no %s, which applies %s: it must contain all Kustomizations of the cluster", p.dump.Source, ref, o.Ref)
		}
		if objects := parent.Inventory(); objects != nil && !slices.Contains(objects, o.Ref) {
			p.warn("%s has the labels of %s, which does not apply it now. If Flux of another cluster applies it, suspend it there", o.Ref, ref)
		}
		if err := p.suspend(parent); err != nil {
			return err
		}
	}
	for _, k := range p.appliers[o.Ref] {
		if err := p.suspend(k); err != nil {
			return err
		}
	}
	return nil
}

// suspend adds a Kustomization below its parents.
func (p *planner) suspend(k fluxdump.Object) error {
	if p.suspended[k.Ref] {
		return nil
	}
	p.suspended[k.Ref] = true
	err := p.parents(k)
	p.Kustomizations = append(p.Kustomizations, Kustomization{Object: k})
	return err
}

// inGit notes an object that is still in the path of a Kustomization that stays.
func (p *planner) inGit(o fluxdump.Object) {
	if parent, ok := o.Owner(); ok && parent != o.Ref && slices.Contains(p.keep, parent) {
		p.InGit = append(p.InGit, fmt.Sprintf("%s, which %s applies", o.Ref, parent))
	}
}

// keeps returns the first object of a Kustomization that is not handed over; empty if there is none.
func (p *planner) keeps(k fluxdump.Object) string {
	for _, owner := range []string{"fluxcd.controlplane.io/name", ownLabel + "name"} {
		if name := k.Text("metadata", "labels", owner); name != "" {
			return "Flux Operator's " + name + ", which would create it again"
		}
	}
	objects := k.Inventory()
	if objects == nil {
		return "its objects, which are not in the dump"
	}
	for _, ref := range objects {
		_, served := p.served[ref]
		over := slices.ContainsFunc(p.Releases, func(r Release) bool { return r.Ref == ref }) ||
			slices.ContainsFunc(p.Kustomizations, func(child Kustomization) bool { return child.Ref == ref && child.Delete })
		if !served && !over && ref.Group != sourceGroup {
			return ref.String()
		}
	}
	return ""
}
