package ui

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// filter selects clusters; empty fields match all.
type filter struct{ Selector, Environment, State, Component, Version, Tag, Layer, Overrides, List, Input, SharedToken, Cause, Hide string }

// page returns the address of the list of matching clusters.
func (f filter) page() string { return prefix + "/clusters?" + f.values().Encode() }

// values returns the query of the address.
func (f filter) values() url.Values {
	return parameters(map[string]string{
		"selector": f.Selector, "environment": f.Environment, "state": f.State, "component": f.Component, "component_version": f.Version, "oci_tag": f.Tag,
		"layer": f.Layer, "overrides": f.Overrides, "list": f.List, "input": f.Input, "shared_token": f.SharedToken, "cause": f.Cause, "hide": f.Hide,
	})
}

// hidden returns the filters that the form of the selector keeps.
func (f filter) hidden() (out []nameValue) {
	f.Selector = ""
	values := f.values()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, nameValue{name, values.Get(name)})
	}
	return out
}

// filterOption is a link that selects a state or a value of a facet.
type filterOption struct {
	State, Label, Link string
	Count              int
	On                 bool
	Uncounted          bool // the link leads to another number of clusters
}

// clustersLink returns the address of the list of clusters in a state, or in one of several, separated by commas.
func clustersLink(state string) string {
	return filter{State: state}.page()
}

// andSelector returns a selector of the clusters that both match.
func andSelector(selector, term string) string {
	if selector = strings.TrimSpace(selector); selector == "" {
		return term
	}
	return selector + "," + term
}
