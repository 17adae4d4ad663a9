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
	"path"
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
	// Warnings name what the hand-over changes on the cluster. Differences are those about values that the first upgrade of a release
	// changes.
	Warnings, Differences []string
	// InGit and Sources name the objects to remove from Git, and the sources that nothing handed over needs any more.
	InGit, Sources []string
	// Shared are objects of the service that a Kustomization which is not deleted applies too.
	Shared []Shared
}

// Shared is an object that Git may lose only when it has no longer the labels of its Kustomization, which would delete it.
type Shared struct{ Object, Kustomization fluxdump.Ref }

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
	p := planner{Plan: Plan{Cluster: cluster}, dump: dump, appliers: map[fluxdump.Ref][]fluxdump.Object{}, suspended: map[fluxdump.Ref]bool{}, named: map[fluxdump.Ref]bool{}}
	system, ok := dump.Find(fluxdump.Ref{Kind: "Namespace", Name: "kube-system"})
	if p.SystemUID = system.Text("metadata", "uid"); !ok || p.SystemUID == "" {
		return Plan{}, args.Errorf("%s has no namespace kube-system with a uid: it must contain the namespaces and the Flux objects of the running cluster, as kubectl get -A -o yaml prints them", dump.Source)
	}
	var err error
	if p.served, err = fluxdump.Rendered(rendered); err != nil {
		return Plan{}, err
	}
	for _, ref := range sorted(p.served) {
		if owner, owned := p.served[ref].Owner(); owned {
			return Plan{}, fmt.Errorf("%s of the fleet has the labels of %s, which would delete it when Git no longer has it: remove its labels %s/name and namespace", ref, owner, kustomizeGroup)
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
	p.dependents()
	p.namespaces()
	return p.Plan, p.check()
}

type planner struct {
	Plan
	dump      *fluxdump.Cluster
	served    map[fluxdump.Ref]fluxdump.Object   // by the service
	appliers  map[fluxdump.Ref][]fluxdump.Object // the Kustomizations that have an object in their inventory
	suspended map[fluxdump.Ref]bool              // the Kustomizations in the plan
	named     map[fluxdump.Ref]bool
	keep      []fluxdump.Ref // Kustomizations that are not deleted
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
			if old.At("metadata", "labels", ownLabel+"name") == nil {
				return fmt.Errorf("%s is not of the service and has the name of its HelmRelease, so that both would apply it: give the component another id", old.Ref)
			}
			continue
		}
		r := release(old)
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
	if r.At("spec", "kubeConfig") != nil {
		return "its release is on another cluster", nil
	}
	why := fmt.Sprintf("no component of the cluster has release name %s and storage namespace %s", r.Release, r.Storage)
	applier := applier(r.Object)
	if applier != "" {
		why = applier + " applies it"
	}
	for _, ref := range sorted(p.served) {
		ours := release(p.served[ref])
		if ref.Group != helmGroup || ref.Kind != r.Kind || ours.Release != r.Release || ours.Storage != r.Storage && ours.Target != r.Target {
			continue
		}
		id := cmp.Or(ours.Text("metadata", "annotations", "event.toolkit.fluxcd.io/component"), ref.Name)
		switch {
		case applier != "":
			return "", fmt.Errorf("component %q has the release of %s, and the script cannot hand it over: %s, again after each deletion, and both would upgrade the release in turns", id, r.Ref, why)
		case ours.Storage != r.Storage:
			return "", fmt.Errorf("component %q would install release %s over the running one, because it keeps the history in %s and %s keeps it in %s: first run component set %s --cluster %s --flux storageNamespace=%s", id, r.Release, ours.Storage, r.Ref, r.Storage, id, p.Cluster, r.Storage)
		case ours.Target != r.Target:
			return "", fmt.Errorf("component %q has target_namespace %s, and %s has %s: Flux would uninstall the release %s to move it", id, ours.Target, r.Ref, r.Target, r.Release)
		}
		p.compare(*r, ours.Object, id)
		r.By = ref.Name
		return "", nil
	}
	return why, nil
}

// applier returns what creates a HelmRelease again that is deleted, other than a Kustomization; empty if nothing does.
func applier(o fluxdump.Object) string {
	owners := o.Entries("metadata", "ownerReferences")
	set, parent := o.Text("metadata", "labels", ownLabel+"name"), o.Text("metadata", "labels", helmGroup+"/name")
	switch {
	case set != "":
		return "ResourceSet " + set
	case parent != "":
		return "the release of HelmRelease " + parent
	case len(owners) > 0:
		return owners[0].Text("kind") + " " + owners[0].Text("name")
	case o.At("metadata", "annotations", "argocd.argoproj.io/tracking-id") != nil:
		return "Argo CD"
	}
	return ""
}

// compare warns of a component whose first upgrade changes the application.
func (p *planner) compare(r Release, ours fluxdump.Object, id string) {
	values, from := p.dump.ReleaseValues(r.Object, r.Namespace)
	newValues, newFrom := p.dump.ReleaseValues(ours, resourceset.Namespace, r.Namespace)
	if at := p.differing(fluxdump.Leaves(fluxdump.Plain(values)), fluxdump.Leaves(fluxdump.Plain(newValues))); len(at) > 0 {
		p.differ("the values of component %q differ from those of %s, so that the first upgrade changes the release: %s", id, r.Ref, strings.Join(at, "; "))
	}
	if was, is := references(from), references(newFrom); was != is {
		p.differ("component %q has values_from %s, and %s has %s: the first upgrade changes the release. If the component has the values of a ConfigMap, add it to the dump", id, is, r.Ref, was)
	}
	of := chart(r.Object, p.dump.Find)
	if now := chart(ours, func(ref fluxdump.Ref) (o fluxdump.Object, ok bool) { o, ok = p.served[ref]; return }); now != of {
		p.warn("component %q has chart %s, and %s has %s: the first upgrade changes the release", id, now, r.Ref, of)
	}
	if r.Flag("spec", "suspend") {
		p.warn("%s is suspended in the dump, and component %q upgrades its release all the same", r.Ref, id)
	}
}

// differing names the paths of different values, without values of Secrets.
func (p *planner) differing(was, is map[string]any) (out []string) {
	for _, at := range fluxdump.Differing(was, is) {
		out = append(out, fmt.Sprintf("%s is %s on the cluster and %s in the fleet", p.dump.Mask(at, nil), p.shown(was[at]), p.shown(is[at])))
	}
	if n := len(out); n > maxShown {
		out = append(out[:maxShown], fmt.Sprintf("and %d more", n-maxShown))
	}
	return out
}

// maxShown is the number of differences of a release in a message.
const maxShown = 5

// shown returns a value for a message. Values of Secrets are masked before it is shortened, which could cut one in two.
func (p *planner) shown(value any) string {
	raw, err := json.Marshal(value)
	if err != nil || value == nil {
		return "absent"
	}
	return fmt.Sprintf("%.100s", p.dump.Mask(string(raw), nil))
}

// references returns the entries of valuesFrom as a text for a comparison.
func references(from []fluxdump.Object) string {
	var out []string
	for _, e := range from {
		text := e.Text("kind") + " " + e.Text("name") + " " + cmp.Or(e.Text("valuesKey"), "values.yaml")
		if target := e.Text("targetPath"); target != "" {
			text += " for " + target
		}
		if e.Flag("optional") {
			text += " (optional)"
		}
		out = append(out, text)
	}
	return cmp.Or(strings.Join(out, ", "), "nothing")
}

// differ warns of values that the first upgrade changes.
func (p *planner) differ(format string, values ...any) {
	p.warn(format, values...)
	p.Differences = append(p.Differences, p.Warnings[len(p.Warnings)-1])
}

func (p *planner) warn(format string, values ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, values...))
}

// chart returns the name and the version of the chart of a HelmRelease.
func chart(o fluxdump.Object, find func(fluxdump.Ref) (fluxdump.Object, bool)) string {
	spec := []string{"spec", "chart", "spec"}
	if name := o.Text("spec", "chartRef", "name"); name != "" {
		o, _ = find(fluxdump.Ref{Group: sourceGroup, Kind: o.Text("spec", "chartRef", "kind"), Namespace: cmp.Or(o.Text("spec", "chartRef", "namespace"), o.Namespace), Name: name})
		spec = spec[:1]
	}
	at := func(names ...string) string { return o.Text(append(slices.Clip(spec), names...)...) }
	return path.Base(cmp.Or(at("chart"), at("url"))) + " " + cmp.Or(cmp.Or(at("version"), at("ref", "tag")), cmp.Or(at("ref", "semver"), "latest"))
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
		for _, field := range []string{"labels", "annotations"} {
			has, _ := ours.At("metadata", field).(map[string]any)
			before, _ := old.At("metadata", field).(map[string]any)
			for _, key := range slices.Sorted(maps.Keys(before)) {
				if _, stays := has[key]; !stays && key != "kubernetes.io/metadata.name" && key != kustomizeGroup+"/name" && key != kustomizeGroup+"/namespace" && key != "kubectl.kubernetes.io/last-applied-configuration" {
					p.warn("the namespace %s of the fleet has no %s %s: Flux may remove it", old.Name, strings.TrimSuffix(field, "s"), key)
				}
			}
		}
	}
}

// release returns the release of a HelmRelease.
func release(o fluxdump.Object) Release {
	return Release{Object: o, Release: o.ReleaseName(), Storage: o.StorageNamespace(), Target: o.TargetNamespace()}
}

func sorted[V any](refs map[fluxdump.Ref]V) []fluxdump.Ref {
	return slices.SortedFunc(maps.Keys(refs), func(a, b fluxdump.Ref) int { return strings.Compare(a.String(), b.String()) })
}
