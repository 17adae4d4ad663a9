package fluximport

import (
	"regexp"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// Label is a label of clusters and where its values come from.
type Label struct {
	Key   string
	value func(c *fluxdump.Cluster) string
}

// ParseLabel parses KEY=folder, KEY=configmap:NAME:KEY or KEY=regexp:EXPRESSION.
func ParseLabel(text string) (Label, error) {
	key, from, _ := strings.Cut(text, "=")
	kind, rest, _ := strings.Cut(from, ":")
	switch {
	case key == "" || key == "id":
	case from == "folder":
		return Label{key, func(c *fluxdump.Cluster) string { return folderOf(c.Source) }}, nil
	case kind == "configmap":
		name, field, ok := strings.Cut(rest, ":")
		if ok && name != "" && field != "" {
			return Label{key, func(c *fluxdump.Cluster) string { return configMapValue(c, name, field) }}, nil
		}
	case kind == "regexp":
		expression, err := regexp.Compile(rest)
		if err == nil && expression.NumSubexp() > 0 {
			return Label{key, func(c *fluxdump.Cluster) string {
				if found := expression.FindStringSubmatch(c.Name); found != nil {
					return found[1]
				}
				return ""
			}}, nil
		}
	}
	return Label{}, args.Errorf("--label-from %q is not KEY=folder, KEY=configmap:NAME:KEY or KEY=regexp:EXPRESSION with a group", text)
}

func folderOf(source string) string {
	parts := strings.FieldsFunc(source, func(r rune) bool { return r == '/' || r == '\\' })
	if len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

func configMapValue(c *fluxdump.Cluster, name, field string) string {
	for _, o := range c.Kind("", "ConfigMap") {
		if o.Name == name && o.Text("data", field) != "" {
			return o.Text("data", field)
		}
	}
	return ""
}

var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

func labelsOf(labels []Label, c *fluxdump.Cluster) (map[string]string, error) {
	out := map[string]string{}
	for _, label := range labels {
		switch value := label.value(c); {
		case value == "":
		case !labelValue.MatchString(value) || variables.In(value):
			return nil, args.Errorf("cluster %s: %q cannot be the value of the label %s: take it from elsewhere, such as a regexp on the name of the cluster", c.Name, value, label.Key)
		default:
			out[label.Key] = value
		}
	}
	return out, nil
}
