package kinds

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// RoleBindings are the role bindings that clusters are assigned.
var RoleBindings = Kind{
	API: "rolebinding", Schema: "RoleBinding", Name: "rolebinding", Plural: "role bindings", Title: "role binding", List: "rolebindings",
	Aliases: []string{"rolebindings", "rb"}, Usage: "Role bindings, and their assignments to clusters",
	Example: "rolebinding create web-editors --role edit --group web --serviceaccount flux-system:deployer",
	Fields: []Field{
		textField("role", "role", "`NAME` of the ClusterRole"),
		subjectField("user", "subject: a `USER`; repeat for more; replaces all subjects"),
		subjectField("group", "subject: a `GROUP`; repeat for more"),
		subjectField("serviceaccount", "subject: a service account, `NAMESPACE:NAME`; repeat for more"),
		textField("namespace", "namespace", "`NAMESPACE` in which the subjects have the role (RoleBinding); empty: the whole cluster (ClusterRoleBinding)"),
		parsedField("label", "labels", "label `KEY=VALUE` of the binding; repeat for more; replaces all labels", input.Pairs),
		parsedField("annotation", "annotations", "annotation `KEY=VALUE` of the binding; repeat for more; replaces all annotations", input.Pairs),
	},
	View: render.View{
		Header: []string{"ID", "ROLE", "NAMESPACE", "SUBJECTS", "REVISION", "LABELS", "ANNOTATIONS", "UPDATED"},
		Narrow: 5,
		Row: render.RowOf(func(d api.RoleBinding) []string {
			subjects := make([]string, len(d.Subjects))
			for i, subject := range d.Subjects {
				subjects[i] = subject.Kind + ":" + strings.TrimPrefix(subject.Namespace+":"+subject.Name, ":")
			}
			return []string{d.ID, d.Role, d.Namespace, strings.Join(subjects, ","), strconv.FormatInt(d.Revision, 10), render.Labels(d.Labels), render.Labels(d.Annotations), render.Time(d.UpdatedAt)}
		}),
	},
	Assignable: &Assignable{
		Word: "role binding", Removed: "the rights that it grants",
		Inputs: InputType{
			Name: "rolebindings",
			View: render.View{
				Header: []string{"ID", "ROLE", "NAMESPACE", "SUBJECTS"},
				Narrow: 4,
				Row: render.RowOf(func(d api.FluxRoleBinding) []string {
					subjects := make([]string, len(d.Subjects))
					for i, subject := range d.Subjects {
						subjects[i] = subject.Kind + ":" + strings.TrimPrefix(subject.Namespace+":"+subject.Name, ":")
					}
					return []string{d.ID, cmp.Or(d.Role, d.NamespaceRole), d.Namespace, strings.Join(subjects, ",")}
				}),
			},
		},
	},
	Calls: conn.Calls{Path: "/rolebindings"},
}

// subjectField is one of the flags that name subjects, as in `kubectl create clusterrolebinding`. Together they are the list of
// subjects, so each of them reads all three.
func subjectField(flag, usage string) Field {
	f := listField(flag, "subjects", usage)
	f.read = func(c *cli.Context, _ string) (any, error) { return subjects(c) }
	return f
}

func subjects(c *cli.Context) ([]map[string]string, error) {
	list := []map[string]string{}
	for _, name := range stringValues(c, "user") {
		list = append(list, map[string]string{"kind": "User", "name": name})
	}
	for _, name := range stringValues(c, "group") {
		list = append(list, map[string]string{"kind": "Group", "name": name})
	}
	for _, account := range stringValues(c, "serviceaccount") {
		namespace, name, ok := strings.Cut(account, ":")
		if !ok || namespace == "" || name == "" {
			return nil, args.Errorf("--serviceaccount %q is not NAMESPACE:NAME", account)
		}
		list = append(list, map[string]string{"kind": "ServiceAccount", "name": name, "namespace": namespace})
	}
	return list, nil
}
