package fleet

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Checks of the digest of a component's artifact, and of the images in its manifests.

// artifact checks version, tag, digest and images of a component, an entry or an override. They need no component, whose source
// may change later.
func (c *checker) artifact(at, version, tag, digest string, images []api.ComponentImage) {
	c.version(at+"/component_version", version)
	if text := c.text(at+"/oci_tag", tag, 253); text && isGitReference(tag) {
		c.gitReference(at+"/oci_tag", tag)
	} else if text && tag != "" && !imageTag.MatchString(tag) && !isRange(tag) { // of a chart it may be a range
		c.problem(at+"/oci_tag", "must be a tag: letters, digits, dots, hyphens and underscores, at most 128; a version's + is _ in tags, and a digest goes into oci_digest")
	}
	c.digest(at+"/oci_digest", digest)
	if digest != "" && version == "" && tag == "" {
		c.problem(at+"/oci_digest", "needs oci_tag or component_version beside it: a version and its digest are one setting")
	}
	c.images(at+"/images", images)
}

// rangeForm is how the template of components tells a range from a version.
var rangeForm = regexp.MustCompile(`[*^~<>=|, ]|^v?[0-9]+([.][0-9]+)?$|[.][xX]([.]|$)`)

// version checks a version or a range, as Helm repositories and OCI registries have them, or a Git reference.
func (c *checker) version(at, text string) {
	if !c.text(at, text, 253) || text == "" {
		return
	}
	if isGitReference(text) {
		c.gitReference(at, text)
		return
	}
	if !isRange(text) && (rangeForm.MatchString(text) || !imageTag.MatchString(strings.ReplaceAll(text, "+", "_"))) {
		c.problem(at, "must be a version or a range of versions, such as 1.2.3 or ~1.2; a digest goes into oci_digest")
	}
}

func isRange(text string) bool {
	_, err := semver.NewConstraint(text)
	return err == nil && rangeForm.MatchString(text)
}

// repositoryPath matches the name of a repository in an OCI registry.
var repositoryPath = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// chartName matches the name of a chart in a Helm repository.
var chartName = regexp.MustCompile(`^[A-Za-z0-9]+([._-]+[A-Za-z0-9]+)*(/[A-Za-z0-9]+([._-]+[A-Za-z0-9]+)*)*$`)

// repository checks that a registry or a Helm repository can have the address of a component, as its template joins it from URL and path.
func (c *checker) repository(p *api.PlatformComponent, u *url.URL) {
	name, path := strings.TrimPrefix(strings.TrimSuffix(u.Path, "/"), "/"), p.ComponentPath
	switch {
	case u.Scheme != "oci" && (strings.Contains(p.OCIURL, " ") || strings.HasSuffix(u.Path, "/index.yaml")):
		c.problem("/oci_url", "must be the URL of a Helm repository, without index.yaml and without spaces")
	case u.Scheme == "oci" && (name != "" || p.Type == typeKustomize) && !repositoryPath.MatchString(name):
		c.problem("/oci_url", "must be a registry and the name of a repository in lower case, without tag and digest: they go into oci_tag and oci_digest")
	case p.Type == typeKustomize && slices.Contains(strings.Split(path, "/"), ".."):
		c.problem("/component_path", "must not leave the artifact")
	case p.Type == TypeHelm && u.Scheme == "oci" && !repositoryPath.MatchString(strings.TrimPrefix(path, "/")):
		c.problem("/component_path", "must be the name of a chart, which is a repository below oci_url: lower case, without tag")
	case p.Type == TypeHelm && u.Scheme != "oci" && !chartName.MatchString(path):
		c.problem("/component_path", "must be the name of a chart in the Helm repository")
	}
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
