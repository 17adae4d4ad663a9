package fleet

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Git repositories as sources of components: their URLs and references.

// isGitURL reports whether the URL of a source is that of a Git repository. The prefix distinguishes it from a Helm repository.
func isGitURL(text string) bool { return strings.HasPrefix(text, "git+") }

// gitRepository checks the URL of a Git repository, and the path of a chart in it.
func (c *checker) gitRepository(p *api.PlatformComponent, u *url.URL) {
	switch {
	case strings.Trim(u.Path, "/") == "" || strings.Contains(p.OCIURL, " "):
		c.problem("/oci_url", "must be the URL of a Git repository, without spaces")
	case u.Scheme == "git+ssh" && p.SecretRef == "":
		c.problem("/secret_ref", "is required for an SSH URL: Flux reads the private key and the known hosts from this Secret")
	case slices.Contains(strings.Split(p.ComponentPath, "/"), ".."):
		c.problem("/component_path", "must not leave the repository")
	}
}

// gitReferences refuses Git references in the version and the tag of a component from another source.
func (c *checker) gitReferences(p *api.PlatformComponent) {
	for _, set := range [][2]string{{"component_version", p.ComponentVersion}, {"oci_tag", p.OCITag}} {
		if isGitReference(set[1]) && !isGitURL(p.OCIURL) {
			c.problem("/"+set[0], "%q is a Git reference, but oci_url is not that of a Git repository: begin the URL with git+https:// or git+ssh://, or set a version or tag", set[1])
		}
	}
}

// adviseGitReferences warns of Git references that a cluster or a layer sets for a component from another source.
func (c *checker) adviseGitReferences(p *api.PlatformComponent, e *api.ComponentAssignment, cluster string) {
	for _, set := range [][2]string{{"component_version", e.ComponentVersion}, {"oci_tag", e.OCITag}} {
		if isGitReference(set[1]) && !isGitURL(p.OCIURL) {
			c.warn("%s %q of component %q on cluster %q cannot be installed: its source %s is not a Git repository", set[0], set[1], e.ID, cluster, p.OCIURL)
		}
	}
}

// isGitReference reports whether a version is the full name of a Git reference. No tag in a registry has this form.
func isGitReference(text string) bool { return strings.HasPrefix(text, "refs/") }

// referenceName matches the full name of a Git reference, apart from what validReference checks. See git-check-ref-format(1).
var referenceName = regexp.MustCompile(`^refs(/[^\x00-\x20\x7f~^:?*\[\\/.][^\x00-\x20\x7f~^:?*\[\\/]*)+$`)

func validReference(text string) bool {
	return referenceName.MatchString(text) && !strings.Contains(text, "..") && !strings.Contains(text, "@{") &&
		!strings.HasSuffix(text, ".") && !strings.Contains(text+"/", ".lock/")
}

// gitReference checks the full name of a Git reference.
func (c *checker) gitReference(at, text string) {
	if !validReference(text) {
		c.problem(at, "must be the full name of a Git reference, such as refs/heads/main")
	}
}
