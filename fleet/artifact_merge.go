package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// The digest of a component's artifact, the images in its manifests and its Flux settings, merged from several documents.

// versionFields are the fields of a component that select its artifact. They are one setting, since Flux installs the digest
// whatever the tag says: the highest document that sets one of them determines the digest.
var versionFields = []string{"component_version", "oci_tag", "oci_digest"}

// setsVersion reports whether an entry or an override sets one of the version fields.
func setsVersion(version, tag, digest string) bool { return version != "" || tag != "" || digest != "" }

// digestOver returns the digest of an assignment over the one of lower documents.
func digestOver(below string, above *api.ComponentAssignment) string {
	if setsVersion(above.ComponentVersion, above.OCITag, above.OCIDigest) {
		return above.OCIDigest
	}
	return below
}

// imagesOver merges images over those of lower documents, by name.
func imagesOver(below, above []api.ComponentImage) []api.ComponentImage {
	switch {
	case len(above) == 0:
		return below
	case len(below) == 0:
		return above
	}
	out := slices.Clone(below)
	for _, image := range above {
		if i := slices.IndexFunc(out, func(lower api.ComponentImage) bool { return lower.Name == image.Name }); i >= 0 {
			out[i] = image
		} else {
			out = append(out, image)
		}
	}
	return out
}

// replacedImages omits the entries that leave an image as it is; nil if none is left.
func replacedImages(images []api.ComponentImage) []api.ComponentImage {
	var out []api.ComponentImage
	for _, image := range images {
		if cmp.Or(image.NewName, image.NewTag, image.Digest) != "" {
			out = append(out, image)
		}
	}
	return out
}

// dropReplacedDigest removes the digest from an object whose version a request has changed, unless the request has a digest:
// the digest is that of the previous version.
func dropReplacedDigest(before, after, request map[string]any) {
	if _, sent := request["oci_digest"]; sent || after["oci_digest"] == nil {
		return
	}
	for _, field := range versionFields {
		was, _ := before[field].(string)
		is, _ := after[field].(string)
		if was != is {
			delete(after, "oci_digest")
			return
		}
	}
}

// copySettings sets the settings of a request in an entry or an override.
func copySettings(entry, request map[string]any) error {
	before := maps.Clone(entry)
	maps.Copy(entry, request)
	if err := mergeFlux(before, entry, request); err != nil {
		return err
	}
	dropReplacedDigest(before, entry, request)
	return nil
}

// dropReplacedDigests is dropReplacedDigest for the overrides of a layer.
func dropReplacedDigests(before, after, request map[string]any) {
	was, _ := before["overrides"].(map[string]any)
	is, _ := after["overrides"].(map[string]any)
	sent, _ := request["overrides"].(map[string]any)
	for id := range sent {
		b, _ := was[id].(map[string]any)
		a, _ := is[id].(map[string]any)
		r, _ := sent[id].(map[string]any)
		dropReplacedDigest(b, a, r)
	}
}

// mergeFlux merges the Flux settings of a request into those that the entry had before: settings that the request omits stay.
func mergeFlux(before, entry, request map[string]any) error {
	patch, ok := request["flux"].(map[string]any)
	if !ok {
		return nil
	}
	had := before["flux"]
	if text, unparsed := had.(jsontext.Text); unparsed {
		obj, err := unstructured.Decode(text)
		if err != nil {
			return fmt.Errorf("flux: %w", err) // settings that the request omits would be lost
		}
		had = obj
	}
	entry["flux"] = jsontext.MergePatch(had, patch)
	return nil
}
