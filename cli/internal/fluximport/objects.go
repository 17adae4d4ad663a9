package fluximport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
)

// API groups.
const (
	helmGroup      = fluxdump.HelmGroup
	kustomizeGroup = fluxdump.KustomizeGroup
	sourceGroup    = fluxdump.SourceGroup
	rbacGroup      = "rbac.authorization.k8s.io"

	fluxNamespace = "flux-system" // in which the templates create all objects of Flux
)

// Types of components.
const (
	helm      = "helm"
	kustomize = "kustomize"
)

func isRelease(r fluxdump.Ref) bool { return r.Group == helmGroup && r.Kind == "HelmRelease" }

func isKustomization(r fluxdump.Ref) bool {
	return r.Group == kustomizeGroup && r.Kind == "Kustomization"
}

func leaves(value any) map[path]any { return fluxdump.Leaves(value) }

// source is where a component comes from.
type source struct {
	ref       fluxdump.Ref
	url       string // of the API: with the prefix git+ for a Git repository
	chart     string // path of the chart, or of the manifests
	version   string // normalized: tag:… or semver:…; empty: the newest
	digest    string
	secretRef string
}

// findSource returns the source of a HelmRelease or a Kustomization. The reason says why there is none that the fleet can have.
func findSource(find func(fluxdump.Ref) (fluxdump.Object, bool), o fluxdump.Object) (s source, reason string) {
	from := o.Below("spec", "chart", "spec")
	to, chart := from.Below("sourceRef"), from.Text("chart")
	switch {
	case isKustomization(o.Ref):
		to, chart = o.Below("spec", "sourceRef"), cmp.Or(strings.Trim(strings.TrimPrefix(o.Text("spec", "path"), "./"), "/"), ".")
	case o.At("spec", "chartRef") != nil:
		to, chart = o.Below("spec", "chartRef"), ""
	}
	ref := fluxdump.Ref{Group: sourceGroup, Kind: to.Text("kind"), Name: to.Text("name"), Namespace: cmp.Or(to.Text("namespace"), o.Namespace)}
	if ref.Kind == "HelmChart" {
		of, ok := find(ref)
		if !ok {
			return s, fmt.Sprintf("%s is not in the dump: add it", ref)
		}
		for _, field := range []string{"valuesFiles", "verify"} {
			if of.At("spec", field) != nil {
				return s, fmt.Sprintf("%s has %s, which no component can have: move the values into the release", ref, field)
			}
		}
		from, chart = of.Below("spec"), of.Text("spec", "chart")
		ref = fluxdump.Ref{Group: sourceGroup, Kind: of.Text("spec", "sourceRef", "kind"), Namespace: of.Namespace, Name: of.Text("spec", "sourceRef", "name")}
	}
	of, ok := find(ref)
	if !ok {
		return s, fmt.Sprintf("%s is not in the dump: add it", ref)
	}
	if of.Flag("spec", "suspend") {
		return s, fmt.Sprintf("%s is suspended, and the fleet would fetch what has changed since then: resume it, or select one version", ref)
	}
	s = source{ref: ref, url: strings.TrimSuffix(of.Text("spec", "url"), "/"), chart: chart, secretRef: of.Text("spec", "secretRef", "name")}
	wanted := of.Below("spec", "ref")
	tag, semver := wanted.Text("tag"), wanted.Text("semver")
	switch ref.Kind {
	case "HelmRepository":
		s.version = versionOf("", from.Text("version"))
	case "OCIRepository":
		s.version, s.digest = versionOf(tag, semver), wanted.Text("digest")
		switch {
		case isKustomization(o.Ref) && s.digest == "" && isRange(semver):
			return s, fmt.Sprintf("a component of type kustomize cannot follow the range %s of %s: select a tag", semver, ref)
		case isKustomization(o.Ref):
		case semver == "" && s.digest == "" && (tag == "" || tag == "latest"):
			return s, "the tag latest is no version of a chart, and the fleet would take the highest version: select a version or a range"
		case semver == "" && isRange(tag):
			return s, fmt.Sprintf("the tag %q would be read as a range of versions: publish the chart under its full version", tag)
		}
		if !isKustomization(o.Ref) {
			at := strings.LastIndex(s.url, "/")
			if at <= len("oci://") {
				return s, fmt.Sprintf("%s has no repository", s.url)
			}
			s.url, s.chart = s.url[:at], s.url[at+1:]
		}
	case "GitRepository":
		s.url = "git+" + s.url
		s.chart = strings.Trim(strings.TrimPrefix(s.chart, "./"), "/")
		switch {
		case wanted.Text("commit") != "":
			s.version = "tag:" + wanted.Text("commit")
		case wanted.Text("name") != "":
			s.version = "tag:" + wanted.Text("name")
		case isRange(semver):
			s.version = "semver:" + semver
		case semver != "":
			return s, fmt.Sprintf("%s selects one version as a range: select the tag", of.Ref)
		case isRange(tag):
			s.version = "tag:refs/tags/" + tag
		case tag != "":
			s.version = "tag:" + tag
		default:
			s.version = "tag:refs/heads/" + cmp.Or(wanted.Text("branch"), "master")
		}
		if !strings.HasPrefix(s.url, "git+https://") && !strings.HasPrefix(s.url, "git+http://") && !strings.HasPrefix(s.url, "git+ssh://") {
			return s, fmt.Sprintf("the URL of %s is neither HTTPS nor SSH", of.Ref)
		}
	default:
		return s, fmt.Sprintf("a source of kind %s is not possible: publish the chart or the manifests as an OCI artifact", cmp.Or(ref.Kind, "none"))
	}
	if s.url == "" || s.url == "git+" {
		return s, fmt.Sprintf("%s has no URL", ref)
	}
	return s, ""
}

// versionRange matches what the template of a component takes for a range of versions.
var versionRange = regexp.MustCompile(`[*^~<>=|, ]|^v?[0-9]+([.][0-9]+)?$|[.][xX]([.]|$)`)

func isRange(version string) bool { return versionRange.MatchString(version) }

// versionOf returns a tag or a range in one form, so that equal ones of different sources are equal.
func versionOf(tag, semver string) string {
	switch {
	case semver == "*" || semver == "" && tag == "" || semver == "" && tag == "latest":
		return ""
	case isRange(semver):
		return "semver:" + semver
	}
	return "tag:" + strings.ReplaceAll(cmp.Or(semver, tag), "_", "+")
}

// plainVersion returns the version as the API takes it.
func plainVersion(version string) string {
	_, text, _ := strings.Cut(version, ":")
	return cmp.Or(text, "latest")
}

// defaultsOf are the values that Flux takes for absent fields, if they are not empty.
func defaultsOf(o fluxdump.Object) map[path]any {
	if isRelease(o.Ref) {
		return map[path]any{"timeout": "5m", "maxHistory": json.Number("5"), "driftDetection.mode": "disabled"}
	}
	return map[path]any{"timeout": o.Text("spec", "interval"), "force": false}
}

// normal returns a value in one form, so that values with the same effect are equal; nil: it has none.
func normal(value any) any {
	switch v := value.(type) {
	case bool:
		if !v {
			return nil
		}
	case map[string]any:
		if len(v) == 0 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
	case float64:
		return normal(json.Number(fmt.Sprint(v)))
	case json.Number:
		if v == "0" {
			return nil
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	case string:
		if d, err := time.ParseDuration(v); err == nil {
			return d.String()
		}
	}
	return value
}
