package handover

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// script is the part of the script that is the same for every cluster. It reads the variables that Script puts before it.
//
//go:embed handover.sh
var script string

// word matches a name of Kubernetes: no character has a meaning for the shell.
var word = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._:]*[A-Za-z0-9])?$`)

// check refuses a name that the script could not contain.
func (p Plan) check() error {
	words := []string{p.Cluster, p.SystemUID}
	for _, r := range p.Releases {
		words = append(words, r.Namespace, r.Name, version(r.Object), r.Release, r.Storage, r.Target, cmp.Or(r.By, "none"))
	}
	for _, k := range p.Kustomizations {
		words = append(words, k.Namespace, k.Name, version(k.Object))
	}
	for _, w := range words {
		if !word.MatchString(w) {
			return fmt.Errorf("%q is no name of Kubernetes", w)
		}
	}
	for _, row := range slices.Concat(p.InGit, p.Sources) {
		if strings.ContainsAny(row, "'\n") {
			return fmt.Errorf("%q is no name of Kubernetes", row)
		}
	}
	return nil
}

// Script returns the plan as a POSIX shell script.
func (p Plan) Script() string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# Hands Flux releases of the cluster " + p.Cluster + " over to flux-resourceset. Read it, then run it with a kubectl that uses the cluster.\n")
	comment := func(title string, lines []string) {
		if len(lines) > 0 {
			b.WriteString("#\n# " + title + "\n")
		}
		for _, line := range lines {
			b.WriteString("#   " + strings.Join(strings.Fields(line), " ") + "\n")
		}
	}
	var kept []string
	for _, k := range p.Kustomizations {
		if !k.Delete {
			kept = append(kept, fmt.Sprintf("%s, because of %s", k.Ref, k.Keeps))
		}
	}
	comment("These HelmReleases stay as they are:", p.Left)
	comment("These Kustomizations are suspended and not deleted:", kept)
	comment("Check before you run it:", p.Warnings)
	b.WriteString("\n")
	table := func(name, columns string, rows []string) {
		b.WriteString("# " + columns + "\n" + name + "='\n")
		for _, row := range rows {
			b.WriteString(row + "\n")
		}
		b.WriteString("'\n")
	}
	b.WriteString("cluster=" + p.Cluster + "\nsystem_uid='" + p.SystemUID + "' # of the namespace kube-system\nflux='" + resourceset.Namespace + "' # the namespace of Flux Operator's objects\n")
	var rows []string
	for _, r := range p.Releases {
		rows = append(rows, strings.Join([]string{r.Namespace, r.Name, version(r.Object), r.Release, r.Storage, r.Target, cmp.Or(r.By, "none")}, " "))
	}
	table("releases", "HelmRelease: namespace, name, API version; its release: name, storage namespace, target namespace; the HelmRelease of the service", rows)
	rows = nil
	for _, k := range p.Kustomizations {
		action := "suspend"
		if k.Delete {
			action = "delete"
		}
		rows = append(rows, strings.Join([]string{k.Namespace, k.Name, version(k.Object), action}, " "))
	}
	table("kustomizations", "Kustomization: namespace, name, API version; what is done with it. From the root down", rows)
	table("in_git", "what has to be removed from Git before its Kustomization is resumed", p.InGit)
	table("sources", "sources to delete by hand, if nothing else uses them", p.Sources)
	table("namespaces", "namespaces that are compared before and after", p.Namespaces)
	b.WriteString(script)
	return b.String()
}

// version returns the version in the API of an object, such as v2.
func version(o fluxdump.Object) string {
	_, v, _ := strings.Cut(o.APIVersion, "/")
	return v
}
