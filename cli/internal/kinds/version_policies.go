package kinds

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// PolicyTable returns the version policies and image policies of a component as a table.
func PolicyTable(document json.RawMessage) (render.Table, error) {
	var d struct {
		VersionPolicies map[string]api.VersionPolicy `json:"version_policies"`
		ImagePolicies   []api.ImagePolicy            `json:"image_policies"`
	}
	err := json.Unmarshal(document, &d)
	t := render.Table{Header: []string{"POLICY", "FOLLOWS", "MIN AGE", "INTERVAL", "SUSPENDED", "ACTION", "IMAGE", "WRITES"}, Narrow: 6}
	for _, target := range slices.Sorted(maps.Keys(d.VersionPolicies)) {
		p := d.VersionPolicies[target]
		action := []string{cmp.Or(p.Action, "propose"), withName("strategy", p.Strategy), withName("group", p.Group)}
		t.Rows = append(t.Rows, []string{
			target, trackText(p.Range, p.Include, p.Exclude), cmp.Or(p.MinAge, "-"), cmp.Or(p.Interval, "1h"), strconv.FormatBool(p.Suspended),
			joinNonEmpty(action, ", "), "-", "-",
		})
	}
	for _, p := range d.ImagePolicies {
		t.Rows = append(t.Rows, []string{
			p.Name, cmp.Or(withName("digest of", p.Track.Tag), trackText(p.Track.Range, p.Track.Include, p.Track.Exclude)), cmp.Or(p.MinAge, "-"), cmp.Or(p.Interval, "1h"),
			strconv.FormatBool(p.Suspended), "-", p.Image, strings.Join(writesOf(p), ", "),
		})
	}
	return t, err
}

// writesOf describes what an image policy writes.
func writesOf(p api.ImagePolicy) (out []string) {
	for _, path := range slices.Sorted(maps.Keys(p.Writes)) {
		out = append(out, path+"="+p.Writes[path])
	}
	if p.Images != nil {
		out = append(out, "images: "+p.Images.Name)
	}
	return out
}

// trackText describes the versions that a policy follows.
func trackText(versions, include, exclude string) string {
	return joinNonEmpty([]string{versions, withName("include", include), withName("exclude", exclude)}, " ")
}

// withName returns a value after its name; empty for an empty value.
func withName(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

// joinNonEmpty joins the texts that are not empty.
func joinNonEmpty(texts []string, separator string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}
