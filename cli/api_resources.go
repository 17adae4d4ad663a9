package cli

import (
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// apiResource is one row of api-resources.
type apiResource struct {
	Name       string   `json:"name"`        // of the command
	ShortNames []string `json:"short_names"` // aliases of the command
	Kind       string   `json:"kind"`        // in the API: in changes, filters and permissions
	Verbs      []string `json:"verbs"`       // subcommands, and commands that take the kind, such as get
}

func (s *session) apiResourcesCommand() *cli.Command {
	return &cli.Command{
		Name: "api-resources", Usage: "List the kinds of documents with their short names and verbs, without a server",
		Description: "TYPE stands for the id of a resource type; get resource-types shows the types of the server. The fields of a kind: explain --fields KIND. Verbs with\n" +
			"KIND NAME, such as history and edit, work for all kinds.",
		Action: args.WithOperands(func(c *cli.Context, _ []string) error {
			resources := apiResources(c.App.Commands)
			t := render.Table{Header: []string{"NAME", "SHORTNAMES", "KIND", "VERBS"}}
			var names []string
			for _, r := range resources {
				t.Rows = append(t.Rows, []string{r.Name, strings.Join(r.ShortNames, ","), r.Kind, strings.Join(r.Verbs, ",")})
				names = append(names, r.Name)
			}
			return s.Print(c, render.Output{
				Document: resources,
				Tables:   func() ([]render.Table, error) { return []render.Table{t}, nil },
				Names:    func() ([]string, error) { return names, nil },
			})
		}),
	}
}

// apiResources lists the compiled-in kinds with the verbs of their commands.
func apiResources(commands []*cli.Command) []apiResource {
	var resources []apiResource
	for _, n := range append(kinds.All(kinds.ResourcesOfID("TYPE")), kinds.Tokens) {
		name, _, _ := strings.Cut(n.Command(), " ") // the type is no command
		if cmd := args.FindCommand(commands, name); cmd != nil {
			verbs := []string{}
			for _, verb := range commands {
				if args.TakesKind(verb) && args.FindCommand(verb.Subcommands, name) != nil {
					verbs = append(verbs, verb.Name)
				}
			}
			resources = append(resources, apiResource{n.Command(), append([]string{}, cmd.Aliases...), n.API, append(verbs, args.Visible(cmd.Subcommands)...)})
		}
	}
	return resources
}
