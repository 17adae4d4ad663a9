package fleet

import (
	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fluxsettings"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// The field flux of a component, with settings for the spec of its HelmRelease or Kustomization: in the catalog, in entries and overrides
// of layers, and in entries of clusters.

// maxFluxBytes is the maximum size of the field in one document.
const maxFluxBytes = 32 << 10

// normalizeFlux removes null and empty settings from the field flux of an object.
func normalizeFlux(obj map[string]any) {
	settings, isObject := obj["flux"].(map[string]any)
	if value, set := obj["flux"]; set && value == nil || isObject && fluxsettings.Prune(settings) == nil {
		delete(obj, "flux")
	}
}

// flux checks the field flux of a component of a type.
func (c *checker) flux(at, kind string, settings map[string]any) {
	if len(settings) == 0 {
		return
	}
	if n := encodedSize(settings); n > maxFluxBytes {
		c.problem(at, "has %d bytes; the Flux settings of a component may have at most %d in one document", n, maxFluxBytes)
	}
	c.fluxOf(at, kind, settings)
}

// fluxOf checks Flux settings without the size limit, since they may be merged from several documents.
func (c *checker) fluxOf(at, kind string, settings map[string]any) {
	for _, p := range fluxsettings.Check(kind, settings) {
		if c.full() {
			return
		}
		c.problem(at+p.Pointer, "%s", p.Detail)
	}
}

// fluxOn returns the Flux settings in a cluster's entry of a component, without those of the catalog.
func fluxOn(c *api.Cluster, component string) map[string]any {
	for i := range c.PlatformComponents {
		if c.PlatformComponents[i].ID == component {
			return c.PlatformComponents[i].Flux
		}
	}
	return nil
}

// checkClusterFlux checks the Flux settings in a cluster's entry of a component, whose type may have changed.
func checkClusterFlux(c *checker, on *Effective, id string, settings map[string]any) {
	if len(settings) == 0 {
		return
	}
	if doc, ok := c.next.definition(on, KindComponent, id); ok {
		c.fluxOf(jsontext.Pointer("platform_components", id, "flux"), doc.Component().Type, settings)
	}
}

// checkLayerFlux checks a layer's Flux settings of a component, whose type may have changed.
func checkLayerFlux(c *checker, l *layer, id string) {
	doc, ok := c.next.Get(KindComponent, id)
	if !ok {
		return // reported at the reference
	}
	for i, e := range l.PlatformComponents {
		if e.ID == id {
			c.flux(jsontext.Pointer("platform_components", i, "flux"), doc.Component().Type, e.Flux)
		}
	}
	c.flux(jsontext.Pointer("overrides", id, "flux"), doc.Component().Type, l.Overrides[id].Flux)
}

// FluxProblems returns the problems of the Flux settings of a component of a type, with pointers relative to the field.
func FluxProblems(kind string, settings map[string]any) []Problem {
	return problemsOf(fluxsettings.Check(kind, settings))
}
