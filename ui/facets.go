package ui

import (
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// facet offers the values of one property of clusters as filters, with the numbers of clusters.
type facet struct {
	Title  string
	On     string // the selected value; empty: none
	Remove string // address without this filter
	Values []filterOption
	More   int // values that are not listed
}

// makeFacets returns the facets of the clusters that match a filter.
func makeFacets(f filter, counts []api.StatusFacet) (out []facet) {
	counted := f.dropOtherCauses()
	for _, c := range counts {
		counted := counted && (c.Name != "component" || f.State == "" && f.Overrides == "") // those are of the selected component only
		one := facet{Title: facetTitle(c), More: c.OtherValues}
		for _, v := range c.Values {
			to, on := f.with(c, v)
			option := filterOption{Label: v.Value, Link: to.page(), Count: v.Clusters, On: on, Uncounted: !counted}
			if c.Name == "version" {
				option.Label = versionText(v.Value, v.OCITag)
			}
			if on {
				one.On, one.Remove, option.Link = option.Label, to.page(), f.page()
			}
			one.Values = append(one.Values, option)
		}
		if c.Name == "component" && f.Input != "" || c.Name == facetOverrides {
			continue
		}
		if c.Name == "component" && one.On != "" { // the numbers of other components are for other states
			one.Values, one.More = slices.DeleteFunc(one.Values, func(o filterOption) bool { return !o.On }), 0
		}
		out = append(out, one)
	}
	return out
}

// dropOtherCauses removes the cause of all rare failures, which stands for other clusters with another filter. It reports whether the filter
// has no such cause, so that the numbers are those of a list with one more filter.
func (f *filter) dropOtherCauses() bool {
	if f.Cause != "other" {
		return true
	}
	f.Cause = ""
	return false
}

// facetOverrides is the facet of clusters whose own document overrides something. It is shown beside the states: one click leads to
// the clusters that differ from their layers.
const facetOverrides = "overrides"

// overrideLabels are the labels of its values, with their meanings.
var overrideLabels = map[string]stateInfo{
	"version": {Label: "Differ from their layers", Meaning: "The cluster's own document sets another version or tag of a component than its layers, or else the catalog."},
	"patches": {Label: "Own patches", Meaning: "The cluster's own document has patches."},
}

// overrideOptions returns the values of the facet as filters.
func overrideOptions(f filter, counts []api.StatusFacet) (out []filterOption) {
	counted := f.dropOtherCauses() && f.Overrides == ""
	for _, c := range counts {
		for _, v := range c.Values {
			if label, ok := overrideLabels[v.Value]; ok && c.Name == facetOverrides {
				to, on := f.with(c, v)
				out = append(out, filterOption{State: label.Meaning, Label: label.Label, Link: to.page(), Count: v.Clusters, On: on, Uncounted: !counted && !on})
			}
		}
	}
	return out
}

// facetTitle returns the title of a facet; for a label its key.
func facetTitle(c api.StatusFacet) string {
	if c.Name == "label" {
		return c.Key
	}
	return strings.ToUpper(c.Name[:1]) + c.Name[1:]
}

// with returns the filter with a value of a facet. If it has this value already, on is true, and the result is without it.
func (f filter) with(c api.StatusFacet, v api.FacetValue) (out filter, on bool) {
	toggle := func(field *string, value string) {
		if on = *field == value; on {
			value = ""
		}
		*field = value
	}
	switch c.Name {
	case "environment":
		toggle(&f.Environment, v.Value)
	case "layer":
		toggle(&f.Layer, v.Value)
	case facetOverrides:
		toggle(&f.Overrides, v.Value)
	case "component":
		toggle(&f.Component, v.Value)
		f.List, f.Input = "", ""
		f.Version, f.Tag = "", ""
	case "version":
		if on = f.Version == v.Value && f.Tag == v.OCITag; on {
			v = api.FacetValue{}
		}
		f.Version, f.Tag = v.Value, v.OCITag
	case "label":
		terms, term := selectorTerms(f.Selector), c.Key+"="+v.Value
		if on = slices.Contains(terms, term); on {
			f.Selector = strings.Join(slices.DeleteFunc(terms, func(t string) bool { return t == term }), ",")
		} else {
			f.Selector = andSelector(f.Selector, term)
		}
	}
	return f, on
}

// selectorTerms splits a selector at its commas outside of parentheses.
func selectorTerms(selector string) (terms []string) {
	depth, start := 0, 0
	for i, r := range selector + "," {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth <= 0:
			if term := strings.TrimSpace(selector[start:i]); term != "" {
				terms = append(terms, term)
			}
			start = i + 1
		}
	}
	return terms
}
