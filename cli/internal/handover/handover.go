// Package handover plans how the HelmReleases of a running cluster are replaced by those of the service without an uninstall, and writes
// the plan as a shell script. It reads a dump of the cluster and the objects that the service renders for it.
//
//	dump, rendered objects ── New ──> Plan ── Script ──> POSIX sh with kubectl
package handover

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

const (
	helmGroup      = fluxdump.HelmGroup
	kustomizeGroup = fluxdump.KustomizeGroup
	sourceGroup    = fluxdump.SourceGroup
	ownLabel       = "resourceset.fluxcd.controlplane.io/"
)

// Plan is what a hand-over does.
type Plan struct {
	Cluster string
	// SystemUID is the uid of the namespace kube-system, which identifies the cluster.
	SystemUID string
	Releases  []Release
	// Kustomizations are suspended, from the root down.
	Kustomizations []Kustomization
	// Namespaces whose objects are compared before and after.
	Namespaces []string
	// Left names the HelmReleases that stay as they are, with the reason.
	Left []string
	// Warnings name what the hand-over changes on the cluster.
	Warnings []string
	// InGit and Sources name the objects to remove from Git, and the sources that nothing handed over needs any more.
	InGit, Sources []string
}

// Release is a HelmRelease that is handed over.
type Release struct {
	fluxdump.Object
	Release, Storage, Target string
	// By is the name of the HelmRelease of the service; empty if the release stays without one.
	By string
}

// Kustomization is suspended, and deleted if all objects that it applies are handed over.
type Kustomization struct {
	fluxdump.Object
	Delete bool
	// Keeps is the first object because of which it is not deleted.
	Keeps string
}

// New plans the hand-over of a cluster. named are the objects that are handed over without a component, as KIND/NAMESPACE/NAME.
// It refuses a component that would install over a running release, or uninstall it.
func New(cluster string, dump *fluxdump.Cluster, rendered []json.RawMessage, named []string) (Plan, error) {
	p := planner{Plan: Plan{Cluster: cluster}, dump: dump, served: map[fluxdump.Ref]resourceset.Object{}, suspended: map[fluxdump.Ref]bool{}, named: map[fluxdump.Ref]bool{}}
	system, ok := dump.Find(fluxdump.Ref{Kind: "Namespace", Name: "kube-system"})
	if p.SystemUID = system.Text("metadata", "uid"); !ok || p.SystemUID == "" {
		return Plan{}, args.Errorf("%s has no namespace kube-system with a uid: it must contain the namespaces and the Flux objects of the running cluster, as kubectl get -A -o yaml prints them", dump.Source)
	}
	for _, raw := range rendered {
		if err := p.serve(raw); err != nil {
			return Plan{}, err
		}
	}
	for _, arg := range named {
		if err := p.name(arg); err != nil {
			return Plan{}, err
		}
	}
	if err := p.releases(); err != nil {
		return Plan{}, err
	}
	if len(p.Releases) == 0 && len(p.named) == 0 {
		return Plan{}, errors.New(strings.Join(append([]string{"no HelmRelease of the dump is the release of a component of the cluster"}, p.Left...), "\n  "))
	}
	if err := p.kustomizations(); err != nil {
		return Plan{}, err
	}
	p.namespaces()
	return p.Plan, p.check()
}

type planner struct {
	Plan
	dump      *fluxdump.Cluster
	served    map[fluxdump.Ref]resourceset.Object // by the service
	suspended map[fluxdump.Ref]bool               // the Kustomizations in the plan
	named     map[fluxdump.Ref]bool
	keep      []fluxdump.Ref // Kustomizations that are not deleted
}

// serve adds a rendered object, and those of a ResourceSet in it.
func (p *planner) serve(raw json.RawMessage) error {
	objects, err := resourceset.ParseObjects(string(raw))
	for _, obj := range objects {
		if resourceset.Text(obj, "kind") == resourceset.Kind {
			inner, err := resourceset.ParseObjects(resourceset.Text(obj, "spec", "resourcesTemplate"))
			if err != nil {
				continue // a template, whose objects are not known
			}
			objects = append(objects, inner...)
		}
	}
	for _, obj := range objects {
		group, _, grouped := strings.Cut(resourceset.Text(obj, "apiVersion"), "/")
		if !grouped {
			group = ""
		}
		p.served[fluxdump.Ref{Group: group, Kind: resourceset.Text(obj, "kind"), Namespace: resourceset.Text(obj, "metadata", "namespace"), Name: resourceset.Text(obj, "metadata", "name")}] = obj
	}
	return err
}

// name reads KIND/NAMESPACE/NAME.
func (p *planner) name(arg string) error {
	kinds := map[string]fluxdump.Ref{"helmrelease": {Group: helmGroup, Kind: "HelmRelease"}, "kustomization": {Group: kustomizeGroup, Kind: "Kustomization"}}
	parts := strings.Split(arg, "/")
	ref, ok := kinds[strings.ToLower(parts[0])]
	if len(parts) != 3 || !ok { //nolint:mnd // as in the message
		return args.Errorf("%q is not helmrelease/NAMESPACE/NAME or kustomization/NAMESPACE/NAME", arg)
	}
	ref.Namespace, ref.Name = parts[1], parts[2]
	if _, ok := p.dump.Find(ref); !ok {
		return args.Errorf("there is no %s in %s", ref, p.dump.Source)
	}
	p.named[ref] = true
	return nil
}

// releases divides the HelmReleases of others into those that a component takes over, those that were named, and those that stay.
func (p *planner) releases() error {
	for _, old := range p.dump.Kind(helmGroup, "HelmRelease") {
		if _, ours := p.served[old.Ref]; ours {
			continue
		}
		r := Release{Object: old, Release: old.ReleaseName(), Storage: old.StorageNamespace(), Target: old.TargetNamespace()}
		why, err := p.match(&r)
		switch {
		case err != nil:
			return err
		case why == "" || p.named[old.Ref]:
			p.Releases = append(p.Releases, r)
		default:
			p.Left = append(p.Left, fmt.Sprintf("%s: %s", old.Ref, why))
		}
	}
	return nil
}

// match finds the component that takes a release over, or returns the reason why none does.
func (p *planner) match(r *Release) (string, error) {
	labels, _ := r.At("metadata", "labels").(map[string]any)
	switch {
	case r.At("spec", "kubeConfig") != nil:
		return "its release is on another cluster", nil
	case labels[ownLabel+"name"] != nil:
		return fmt.Sprintf("ResourceSet %v applies it", labels[ownLabel+"name"]), nil
	case labels[helmGroup+"/name"] != nil:
		return fmt.Sprintf("it is a part of the release of HelmRelease %v", labels[helmGroup+"/name"]), nil
	}
	for _, ref := range sorted(p.served) {
		ours := p.served[ref]
		if ref.Group != helmGroup || ref.Kind != r.Kind {
			continue
		}
		storage := cmp.Or(resourceset.Text(ours, "spec", "storageNamespace"), ref.Namespace)
		target := cmp.Or(resourceset.Text(ours, "spec", "targetNamespace"), ref.Namespace)
		id := cmp.Or(resourceset.Text(ours, "metadata", "annotations", "event.toolkit.fluxcd.io/component"), ref.Name)
		name := cmp.Or(resourceset.Text(ours, "spec", "releaseName"), ref.Name)
		switch {
		case name != r.Release || storage != r.Storage && target != r.Target:
		case storage != r.Storage:
			return "", fmt.Errorf("component %q would install release %s over the running one, because it keeps the history in %s and %s keeps it in %s: first run component set %s --cluster %s --flux storageNamespace=%s", id, name, storage, r.Ref, r.Storage, id, p.Cluster, r.Storage)
		case target != r.Target:
			return "", fmt.Errorf("component %q has target_namespace %s, and %s has %s: Flux would uninstall the release %s to move it", id, target, r.Ref, r.Target, name)
		default:
			p.compare(*r, ours, id)
			r.By = ref.Name
			return "", nil
		}
	}
	return fmt.Sprintf("no component of the cluster has release name %s and storage namespace %s", r.Release, r.Storage), nil
}

// compare warns of a component whose first upgrade changes the application.
func (p *planner) compare(r Release, ours resourceset.Object, id string) {
	spec, _ := ours["spec"].(resourceset.Object)
	if text(r.At("spec", "values")) != text(spec["values"]) {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the values of component %q differ from those of %s: the first upgrade changes the release", id, r.Ref))
	}
	if r.At("spec", "valuesFrom") != nil {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s has valuesFrom: compare it with values_from of component %q", r.Ref, id))
	}
}

// text returns values for a comparison. No values are the same as empty ones.
func text(values any) string {
	raw, err := json.Marshal(values)
	if s := string(raw); err == nil && s != "null" {
		return s
	}
	return "{}"
}

// kustomizations collects the Kustomizations that apply what is handed over, from the root down.
func (p *planner) kustomizations() error {
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
			case k.Delete && ref.Group == sourceGroup:
				p.Sources = append(p.Sources, ref.String())
			case !k.Delete && served:
				p.InGit = append(p.InGit, fmt.Sprintf("%s, which %s applies", ref, k.Ref))
			}
		}
	}
	return nil
}

// parents adds the Kustomizations above an object. One that is not in the dump would stay active and create the object again.
func (p *planner) parents(o fluxdump.Object) error {
	ref, applied := o.Owner()
	if !applied {
		return nil
	}
	parent, ok := p.dump.Find(ref)
	if !ok {
		return args.Errorf("%s has no %s, which applies %s: it must contain all Kustomizations of the cluster", p.dump.Source, ref, o.Ref)
	}
	return p.suspend(parent)
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

// namespaces collects the namespaces of the releases, and warns of labels and annotations that Flux Operator removes.
func (p *planner) namespaces() {
	for _, r := range p.Releases {
		p.Namespaces = append(p.Namespaces, r.Target)
	}
	slices.Sort(p.Namespaces)
	p.Namespaces = slices.Compact(p.Namespaces)
	for _, old := range p.dump.Kind("", "Namespace") {
		ours, served := p.served[old.Ref]
		if !served {
			continue
		}
		metadata, _ := ours["metadata"].(resourceset.Object)
		for _, field := range []string{"labels", "annotations"} {
			has, _ := metadata[field].(resourceset.Object)
			before, _ := old.At("metadata", field).(map[string]any)
			for _, key := range slices.Sorted(maps.Keys(before)) {
				if _, stays := has[key]; !stays && key != "kubernetes.io/metadata.name" && key != kustomizeGroup+"/name" && key != kustomizeGroup+"/namespace" && key != "kubectl.kubernetes.io/last-applied-configuration" {
					p.Warnings = append(p.Warnings, fmt.Sprintf("the namespace %s of the fleet has no %s %s: Flux may remove it", old.Name, strings.TrimSuffix(field, "s"), key))
				}
			}
		}
	}
}

func sorted[V any](refs map[fluxdump.Ref]V) []fluxdump.Ref {
	return slices.SortedFunc(maps.Keys(refs), func(a, b fluxdump.Ref) int { return strings.Compare(a.String(), b.String()) })
}
