// Package fluxsettings defines the field flux of a component: settings for the spec of its HelmRelease or Kustomization. It has the table
// of the accepted and the refused settings, checks them, merges them, and finds those whose change makes Flux uninstall the release or
// delete objects.
package fluxsettings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// The types of components.
const (
	Helm      = "helm"
	Kustomize = "kustomize"
)

// Setting is a row of the table.
type Setting struct {
	Path string // in the spec of the object, joined by dots
	// Types are the types of components that the row applies to.
	Types []string
	Value Type
	// Identity: a change counts as a removal, because Flux uninstalls the release or deletes objects. Default is the value that the
	// template sets if the setting is absent.
	Identity bool
	Default  any
	// Refused is the reason why the setting is refused. Such a row has no Value and applies to all paths below it too.
	Refused string
}

var (
	both      = []string{Helm, Kustomize}
	helm      = []string{Helm}
	kustomize = []string{Kustomize}

	crds        = oneOf("Skip", "Create", "CreateReplace")
	names       = text(253)
	labels      = mapOf("labels", text(63))
	annotations = mapOf("annotations", text(4096))
)

// Table has all settings. Any other is refused as unknown.
var Table = slices.Concat([]Setting{
	{Path: "interval", Types: both, Value: duration},
	{Path: "timeout", Types: both, Value: duration},
	{Path: "commonMetadata.labels", Types: both, Value: labels},
	{Path: "commonMetadata.annotations", Types: both, Value: annotations},
	{Path: "maxHistory", Types: helm, Value: integer(0, 1000)},
	{Path: "persistentClient", Types: helm, Value: boolean},
	{Path: "storageNamespace", Types: helm, Value: dnsLabel, Identity: true, Default: "flux-system"},
},
	actions([]string{"install", "upgrade"}, []Setting{
		{Path: "timeout", Value: duration},
		{Path: "crds", Value: crds},
		{Path: "remediation.retries", Value: integer(-1, 1000)},
		{Path: "remediation.remediateLastFailure", Value: boolean},
		{Path: "remediation.ignoreTestFailures", Value: boolean},
		{Path: "strategy", Value: object(map[string]Type{"name": oneOf("RemediateOnFailure", "RetryOnFailure"), "retryInterval": duration}, "name").and(func(at string, strategy map[string]any) []jsontext.Problem {
			if strategy["retryInterval"] != nil && strategy["name"] != "RetryOnFailure" {
				return problem(at+"/retryInterval", "requires name RetryOnFailure")
			}
			return nil
		})},
		{Path: "disableHooks", Value: boolean},
		{Path: "disableWait", Value: boolean},
		{Path: "disableWaitForJobs", Value: boolean},
		{Path: "disableOpenAPIValidation", Value: boolean},
		{Path: "disableSchemaValidation", Value: boolean},
		{Path: "disableTakeOwnership", Value: boolean},
	}),
	actions([]string{"upgrade"}, []Setting{
		{Path: "remediation.strategy", Value: only("rollback", "uninstall", "a failed upgrade would uninstall the release")},
		{Path: "cleanupOnFail", Value: boolean},
		{Path: "force", Value: boolean},
	}),
	actions([]string{"rollback"}, []Setting{
		{Path: "timeout", Value: duration},
		{Path: "cleanupOnFail", Value: boolean},
		{Path: "disableHooks", Value: boolean},
		{Path: "disableWait", Value: boolean},
		{Path: "disableWaitForJobs", Value: boolean},
		{Path: "force", Value: boolean},
		{Path: "recreate", Value: boolean},
	}),
	actions([]string{"test"}, []Setting{
		{Path: "enable", Value: boolean},
		{Path: "timeout", Value: duration},
		{Path: "ignoreFailures", Value: boolean},
		{Path: "filters", Value: listOf(object(map[string]Type{"name": names, "exclude": boolean}, "name"))},
	}),
	[]Setting{
		{Path: "driftDetection.mode", Types: helm, Value: oneOf("enabled", "warn", "disabled")},
		{Path: "driftDetection.ignore", Types: helm, Value: listOf(object(map[string]Type{
			"paths": listOf(text(1024)), "target": object(map[string]Type{
				"group": names, "version": names, "kind": names, "name": names, "namespace": names, "labelSelector": text(1024), "annotationSelector": text(1024),
			}),
		}, "paths"))},

		{Path: "retryInterval", Types: kustomize, Value: duration},
		{Path: "wait", Types: kustomize, Value: boolean},
		{Path: "force", Types: kustomize, Value: only(false, true, "a change of an immutable field would delete the object, such as a PersistentVolumeClaim with its data, and create it again; "+
			"the artifact can allow this for single objects with the annotation kustomize.toolkit.fluxcd.io/force: enabled")},
		{Path: "healthChecks", Types: kustomize, Value: listOf(object(map[string]Type{"apiVersion": names, "kind": names, "name": names, "namespace": names}, "kind", "name"))},
		{Path: "healthCheckExprs", Types: kustomize, Value: listOf(object(map[string]Type{
			"apiVersion": names, "kind": names, "current": text(4096), "inProgress": text(4096), "failed": text(4096),
		}, "apiVersion", "kind", "current"))},
		{Path: "decryption", Types: kustomize, Value: object(map[string]Type{"provider": oneOf("sops"), "secretRef": object(map[string]Type{"name": names}, "name")}, "provider")},
		{Path: "targetNamespace", Types: kustomize, Value: dnsLabel, Identity: true},
		{Path: "namePrefix", Types: kustomize, Value: text(200), Identity: true},
		{Path: "nameSuffix", Types: kustomize, Value: text(200), Identity: true},
		{Path: "prune", Types: kustomize, Value: boolean, Identity: true, Default: true},
		{Path: "components", Types: kustomize, Value: listOf(text(1024)), Identity: true},
		{Path: "ignoreMissingComponents", Types: kustomize, Value: boolean, Identity: true, Default: false},

		{Path: "path", Types: both, Refused: "the field component_path sets it"},
		{Path: "images", Types: both, Refused: "the field images sets it"},
		{Path: "chart", Types: both, Refused: "the fields oci_url, component_path and component_version set it"},
		{Path: "chartRef", Types: both, Refused: "the fields oci_url, component_path and component_version set it"},
		{Path: "sourceRef", Types: both, Refused: "the fields oci_url and oci_tag set it"},
		{Path: "releaseName", Types: both, Refused: "the field release_name sets it"},
		{Path: "targetNamespace", Types: helm, Refused: "the field target_namespace sets it"},
		{Path: "values", Types: both, Refused: "patches set them"},
		{Path: "valuesFrom", Types: both, Refused: "the field values_from sets it"},
		{Path: "postBuild", Types: both, Refused: "patches set its variables"},
		{Path: "dependsOn", Types: both, Refused: "the field depends_on sets it"},
		{Path: "install.createNamespace", Types: both, Refused: "the namespace of a release is always created"},
		{Path: "install.replace", Types: both, Refused: "it would replace a release that exists in the history"},
		{Path: "install.skipCRDs", Types: both, Refused: "deprecated in Flux: install.crds replaces it"},
		{Path: "upgrade.preserveValues", Types: both, Refused: "values that were removed from all documents would stay in the release"},
		{Path: "uninstall", Types: both, Refused: "the removal of a component cannot be configured"},
		{Path: "deletionPolicy", Types: both, Refused: "the removal of a component cannot be configured"},
		{Path: "suspend", Types: both, Refused: "Flux would not apply later changes: pin the cluster, or create a freeze"},
		{Path: "kubeConfig", Types: both, Refused: "it would install the component on another cluster"},
		{Path: "serviceAccountName", Types: both, Refused: "it determines the permissions of the component on the cluster"},
		{Path: "postRenderers", Types: both, Refused: "patches of objects are not supported"},
		{Path: "patches", Types: both, Refused: "patches of objects are not supported"},
	},
)

// actions returns settings below the names of actions of helm-controller.
func actions(names []string, settings []Setting) (out []Setting) {
	for _, name := range names {
		for _, s := range settings {
			s.Path, s.Types = name+"."+s.Path, helm
			out = append(out, s)
		}
	}
	return out
}

// accepted are the accepted settings by path. Some are accepted for one type of component and refused for the other.
var accepted = func() map[string]*Setting {
	out := map[string]*Setting{}
	for i := range Table {
		if Table[i].Refused == "" {
			out[Table[i].Path] = &Table[i]
		}
	}
	return out
}()

// Page is the documentation page with the table.
const Page = "docs/flux-settings.md"

// Check returns the problems of the settings of a component of some type.
func Check(kind string, settings map[string]any) []jsontext.Problem {
	return check("", "", kind, settings)
}

func check(at, parent, kind string, settings map[string]any) (out []jsontext.Problem) {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		here, path := at+jsontext.Pointer(key), strings.TrimPrefix(parent+"."+key, ".")
		below, isObject := settings[key].(map[string]any)
		s := accepted[path]
		switch refused := refusalReason(kind, path); {
		case refused != "":
			out = append(out, problem(here, "the setting %s is refused: %s (%s)", path, refused, Page)...)
		case s != nil && !slices.Contains(s.Types, kind):
			out = append(out, problem(here, "the setting %s applies to components of type %s; this one has type %s (%s)", path, s.Types[0], kind, Page)...)
		case s != nil:
			for _, p := range s.Value.check(here, settings[key]) {
				p.Detail += fmt.Sprintf("; %s takes %s (%s)", path, s.Value.Name, Page)
				out = append(out, p)
			}
		case !isGroup(path):
			out = append(out, problem(here, "unknown setting %s; %s lists the settings", path, Page)...)
		case !isObject:
			out = append(out, problem(here, "must be an object; %s lists its settings", Page)...)
		default:
			out = append(out, check(here, path, kind, below)...)
		}
	}
	return out
}

// refusalReason returns why a setting is refused, or the empty string.
func refusalReason(kind, path string) string {
	for _, s := range Table {
		if s.Refused != "" && s.Path == path && slices.Contains(s.Types, kind) {
			return s.Refused
		}
	}
	return ""
}

// isGroup reports whether a setting is below a path.
func isGroup(path string) bool {
	return slices.ContainsFunc(Table, func(s Setting) bool { return strings.HasPrefix(s.Path, path+".") })
}

// Merge merges settings over those of lower documents, setting by setting. It does not change its arguments.
func Merge(below, above map[string]any) map[string]any { return merge("", below, above) }

func merge(parent string, below, above map[string]any) map[string]any {
	switch {
	case len(above) == 0:
		return below
	case len(below) == 0:
		return above
	}
	out := maps.Clone(below)
	for key, value := range above {
		path := strings.TrimPrefix(parent+"."+key, ".")
		lower, both := below[key].(map[string]any)
		upper, objects := value.(map[string]any)
		if both && objects && accepted[path] == nil {
			value = merge(path, lower, upper)
		}
		out[key] = value
	}
	return out
}

// Prune removes nulls and empty objects, which mean the same as an absent setting. It changes the object in place and returns it, or nil
// if it is empty.
func Prune(settings map[string]any) map[string]any {
	for key, value := range settings {
		below, isObject := value.(map[string]any)
		if value == nil || isObject && Prune(below) == nil {
			delete(settings, key)
		}
	}
	if len(settings) == 0 {
		return nil
	}
	return settings
}

// Identity returns, as JSON, the settings with [Setting.Identity] that differ from their defaults. It omits targetNamespace, which
// [TargetNamespace] returns. The result is empty if there are none.
func Identity(settings map[string]any) string {
	if len(settings) == 0 {
		return ""
	}
	identity := map[string]any{}
	for path, s := range accepted { // no path of these has a dot
		value, set := settings[path]
		list, isList := value.([]any)
		if !s.Identity || !set || path == "targetNamespace" || isList && len(list) == 0 || !isList && value == s.Default {
			continue
		}
		identity[path] = value
	}
	if len(identity) == 0 {
		return ""
	}
	text, err := jsontext.Canonical(identity)
	if err != nil {
		return err.Error() // encoding parsed JSON cannot fail
	}
	return string(text)
}

// StorageNamespace returns the namespace in which helm-controller stores the history of the release.
func StorageNamespace(settings map[string]any) string {
	if name, ok := settings["storageNamespace"].(string); ok {
		return name
	}
	return accepted["storageNamespace"].Default.(string)
}

// IgnoresInstallRemediation reports whether the template overrides a remediation of a failed install: with a storage namespace, the install
// may have taken over a running release, which its remediation would uninstall.
func IgnoresInstallRemediation(settings map[string]any) bool {
	install, _ := settings["install"].(map[string]any)
	remediation, _ := install["remediation"].(map[string]any)
	retries, _ := remediation["retries"].(float64)
	ofLast, _ := remediation["remediateLastFailure"].(bool)
	return settings["storageNamespace"] != nil && (retries != 0 || ofLast)
}

// TargetNamespace returns the targetNamespace of a Kustomization; empty if it is not set.
func TargetNamespace(settings map[string]any) string {
	name, _ := settings["targetNamespace"].(string)
	return name
}
