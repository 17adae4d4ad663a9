package handover

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// script is the part of the script that is the same for every cluster. It reads the variables that Script puts before it.
//
//go:embed handover.sh
var script string

// word matches a name of Kubernetes, and line some names: no character has a meaning for the shell within apostrophes.
var (
	word = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._:]*[A-Za-z0-9])?$`)
	line = regexp.MustCompile(`^[-A-Za-z0-9._:/, ]+$`)
)

// table is a variable of the script, with a row in each line.
type table struct {
	name, columns string
	rows          []string
	form          *regexp.Regexp // of a row, otherwise each row has words
}

func (p Plan) tables() []table {
	var releases, kustomizations, shared []string
	for _, r := range p.Releases {
		releases = append(releases, row(r.Namespace, r.Name, version(r.Object), r.Release, r.Storage, r.Target, cmp.Or(r.By, "none")))
	}
	for _, k := range p.Kustomizations {
		action := "suspend"
		if k.Delete {
			action = "delete"
		}
		kustomizations = append(kustomizations, row(k.Namespace, k.Name, version(k.Object), action))
	}
	for _, s := range p.Shared {
		kind := strings.TrimSuffix(s.Object.Kind+"."+s.Object.Group, ".")
		shared = append(shared, row(kind, cmp.Or(s.Object.Namespace, "-"), s.Object.Name, s.Kustomization.Namespace, s.Kustomization.Name))
	}
	return []table{
		{name: "releases", rows: releases, columns: "HelmRelease: namespace, name, API version; its release: name, storage namespace, target namespace; the HelmRelease of the service"},
		{name: "kustomizations", rows: kustomizations, columns: "Kustomization: namespace, name, API version; what is done with it. From the root down"},
		{name: "in_git", rows: p.InGit, form: line, columns: "what has to be removed from Git before its Kustomization is resumed"},
		{name: "shared", rows: shared, form: line, columns: "objects of the service that a suspended Kustomization applies too: type, namespace or -, name; namespace and name of the Kustomization"},
		{name: "sources", rows: p.Sources, form: line, columns: "sources to delete by hand, if nothing else uses them"},
		{name: "namespaces", rows: p.Namespaces, columns: "namespaces that are compared before and after"},
	}
}

func row(words ...string) string { return strings.Join(words, " ") }

// check refuses a name that the script could not contain.
func (p Plan) check() error {
	for _, t := range append(p.tables(), table{rows: []string{p.Cluster, p.SystemUID}}) {
		for _, row := range t.rows {
			words, form := []string{row}, t.form
			if form == nil {
				words, form = strings.Split(row, " "), word
			}
			for _, w := range words {
				if !form.MatchString(w) {
					return fmt.Errorf("%q is no name of Kubernetes", w)
				}
			}
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
			b.WriteString("#   " + strings.Map(printable, strings.Join(strings.Fields(line), " ")) + "\n")
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
	b.WriteString("cluster=" + p.Cluster + "\nsystem_uid='" + p.SystemUID + "' # of the namespace kube-system\nflux='" + resourceset.Namespace + "' # the namespace of Flux Operator's objects\n")
	for _, t := range p.tables() {
		b.WriteString("# " + t.columns + "\n" + t.name + "='\n")
		for _, row := range t.rows {
			b.WriteString(row + "\n")
		}
		b.WriteString("'\n")
	}
	b.WriteString(script)
	return b.String()
}

// printable replaces a character that a terminal would obey.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// version returns the version in the API of an object, such as v2.
func version(o fluxdump.Object) string {
	_, v, _ := strings.Cut(o.APIVersion, "/")
	return v
}
