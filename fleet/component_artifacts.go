package fleet

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Checks of the digest of a component's artifact, and of the images in its manifests.

// artifact checks the digest and the images of an entry or an override. They need no component, whose source may change later.
func (c *checker) artifact(at, version, tag, digest string, images []api.ComponentImage) {
	c.digest(at+"/oci_digest", digest)
	if digest != "" && version == "" && tag == "" {
		c.problem(at+"/oci_digest", "needs oci_tag or component_version beside it: a version and its digest are one setting")
	}
	c.images(at+"/images", images)
}

// digest checks a digest that may be empty.
func (c *checker) digest(at, digest string) {
	if digest != "" && !versionDigest.MatchString(digest) {
		c.problem(at, "must be sha256: and 64 lower-case hex digits")
	}
}

// images checks the images of one document. The names become a regular expression in Kustomize, so nothing but names of images
// may get there.
func (c *checker) images(at string, images []api.ComponentImage) {
	for i, image := range images {
		if c.full() {
			return
		}
		at := at + jsontext.Pointer(i)
		c.imageName(at+"/name", image.Name)
		if image.NewName != "" {
			c.imageName(at+"/new_name", image.NewName)
		}
		if image.NewTag != "" && !imageTag.MatchString(image.NewTag) {
			c.problem(at+"/new_tag", "must be a tag of an image")
		}
		c.digest(at+"/digest", image.Digest)
		if j := slices.IndexFunc(images, func(other api.ComponentImage) bool { return other.Name == image.Name }); j < i {
			c.problem(at+"/name", "the image %q is also in %s", image.Name, jsontext.Pointer(j))
		}
	}
}
